/** Unmounts what a test rendered: a component that stays polls on after the window of its test file is gone. */

import { cleanup } from "@testing-library/react";
import { afterEach } from "vitest";

afterEach(cleanup);
