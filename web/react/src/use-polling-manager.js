import { useLongwatch } from "./provider.js";

/** The provider's polling manager: the page's, unless it was given another. */
export function usePollingManager() {
  return useLongwatch().manager;
}
