/** The examples of the guide, as they are printed there, on a server that has nothing yet. */

import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test } from "vitest";

// @ts-expect-error -- a block of docs/how-to/react.md, which `vitest.config.ts` makes a module
import { ChatInterface } from "./ChatInterface.guide.tsx";
import { pageOf } from "./support/page.js";

test("the chat of the guide asks on an empty server", async () => {
  const { Page } = pageOf(`guide-${process.pid}`);
  render(<ChatInterface sessionId="chat" />, { wrapper: Page });

  fireEvent.click(screen.getByText("Ask"));

  await screen.findByText("Stop", {}, { timeout: 15_000 });
  expect(screen.queryByRole("alert")).toBeNull();
});
