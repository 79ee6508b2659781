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
  let cuts = 0;
  const server: Server = createServer((asked, answer) => {
    if (proxy.habit === "away") return void asked.socket.destroy();
    const forwarded = request(target + asked.url, {
      method: asked.method,
      headers: { ...asked.headers, host: new URL(target).host },
    });
    asked.pipe(forwarded);
    answer.once("close", () => forwarded.destroy());
    forwarded.once("error", () => asked.socket.destroy());
    forwarded.once("response", (response) => {
      response.once("error", () => asked.socket.destroy());
      if (proxy.habit === "buffers") {
        const held: Buffer[] = [];
        response.on("data", (piece: Buffer) => held.push(piece));
        response.once("end", () =>
          answer.writeHead(response.statusCode ?? 502, response.headers).end(Buffer.concat(held)),
        );
        return;
      }
      answer.writeHead(response.statusCode ?? 502, response.headers);
      if (proxy.habit !== "cuts") return void response.pipe(answer);
      let whole = 1 + (cuts++ % 5); // pieces that pass; the next is cut in two, however long that takes to come
      response.on("data", (piece: Buffer) => {
        if (whole-- > 0) return void answer.write(piece);
        response.pause();
        answer.write(piece.subarray(0, piece.length >> 1), () => asked.socket.destroy());
      });
      response.once("end", () => answer.end());
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
