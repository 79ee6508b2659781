/** The token of a WebSocket, to which browsers can add no headers. */

/**
 * The subprotocols with which a WebSocket of the server sends its token: `new WebSocket(url, socketProtocols(token))`.
 * @param {string} token
 * @returns {string[]}
 */
export function socketProtocols(token) {
  const encoded = btoa(token).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return ["longwatch", `longwatch.bearer.${encoded}`];
}
