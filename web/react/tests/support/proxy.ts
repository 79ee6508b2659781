/** A proxy on loopback that does to connections what proxies do. */

import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export type Habit = "honest" | "cuts" | "buffers" | "away";

export interface Proxy {
  address: string;
  habit: Habit;
  close: () => Promise<void>;
}

export async function proxyTo(target: string): Promise<Proxy> {
  const server: Server = createServer((asked, answer) => {
    if (proxy.habit === "away") return void asked.socket.destroy();
    const forwarded = request(target + asked.url, { method: asked.method, headers: { ...asked.headers, host: new URL(target).host } });
    asked.pipe(forwarded);
    answer.once("close", () => forwarded.destroy());
    forwarded.once("error", () => asked.socket.destroy());
    forwarded.once("response", (response) => {
      response.once("error", () => asked.socket.destroy());
      if (proxy.habit === "buffers") {
        const held: Buffer[] = [];
        response.on("data", (piece: Buffer) => held.push(piece));
        response.once("end", () => answer.writeHead(response.statusCode ?? 502, response.headers).end(Buffer.concat(held)));
        return;
      }
      answer.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(answer);
      if (proxy.habit === "cuts") setTimeout(() => asked.socket.destroy(), 20 + Math.random() * 150);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const proxy: Proxy = {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    habit: "honest",
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  return proxy;
}
