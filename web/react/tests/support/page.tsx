/** A page around the hooks under test, with a network that a test can count and cut. */

import { QueryClient } from "@tanstack/react-query";
import { StrictMode, type ReactNode } from "react";

import { LongwatchProvider, PollingManager } from "../../index.js";
import { address } from "./journal.js";

export interface Network {
  requests: string[];
  /** Of every stream that was opened: aborted once it is closed. */
  streams: AbortSignal[];
  isCut: boolean;
  /** Keep requests back until the function that it gives is called. */
  hold: () => () => void;
  fetch: (address: string, options?: RequestInit) => Promise<Response>;
}

export function network(): Network {
  let held: Promise<void> | null = null;
  const net: Network = {
    requests: [],
    streams: [],
    isCut: false,
    hold: () => {
      let release = () => {};
      held = new Promise((resolve) => (release = resolve));
      return () => {
        held = null;
        release();
      };
    },
    fetch: async (asked, options) => {
      net.requests.push(`${options?.method ?? "GET"} ${asked.slice(address.length)}`);
      await held;
      if (net.isCut) throw new TypeError("fetch failed");
      if (asked.includes("/api/stream") && options?.signal) net.streams.push(options.signal);
      return fetch(asked, options);
    },
  };
  return net;
}

/** Everything below a strict React, a provider, and a query client and a polling manager of its own. */
export function pageOf(projectId: string, net: Network = network(), { strict = true } = {}) {
  const manager = new PollingManager();
  const queryClient = new QueryClient();
  const Page = ({ children }: { children?: ReactNode }) => {
    const page = (
      <LongwatchProvider
        baseUrl={address}
        projectId={projectId}
        fetch={net.fetch}
        manager={manager}
        queryClient={queryClient}
      >
        {children}
      </LongwatchProvider>
    );
    return strict ? <StrictMode>{page}</StrictMode> : page;
  };
  return { Page, manager, queryClient, net };
}
