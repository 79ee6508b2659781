import { useLongwatch } from "./provider.js";

/** The provider's polling manager: that of the page, unless the provider has another. */
export function usePollingManager() {
  return useLongwatch().manager;
}
