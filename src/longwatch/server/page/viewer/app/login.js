/** `<lw-login>`: the sign-in form. The server exchanges the token for a cookie that scripts cannot read. */

import { asError } from "../core/errors.js";
import { h, setText } from "./dom.js";
import { div, p } from "./markup.js";
import { Part, define } from "./element.js";
import { api } from "./client.js";
import { signedOut } from "./connection.js";

export class Login extends Part {
  #token = h("input", {
    type: "password",
    name: "token",
    "aria-label": "Token",
    placeholder: "Token",
    autocomplete: "current-password",
    required: true,
  });
  #error = h("p", { class: "is-failed", role: "alert" });
  #button = h("button", { type: "submit", class: "primary" }, "Sign in");

  connectedCallback() {
    if (!this.hasChildNodes()) {
      this.append(
        div(
          "login",
          h("h1", {}, "Sign in"),
          p(
            "dim",
            "This server requires a token. ",
            h("code", {}, "longwatch serve"),
            " prints a one-time sign-in link and the path of the token file.",
          ),
          h(
            "form",
            { on: { submit: (/** @type {Event} */ event) => this.#submit(event) } },
            this.#token,
            this.#button,
          ),
          this.#error,
        ),
      );
    }
    this.#token.focus();
  }

  /** @param {Event} event */
  async #submit(event) {
    event.preventDefault();
    this.#button.disabled = true;
    try {
      await api.send("POST", "/api/login", { token: this.#token.value });
      signedOut.set(false);
    } catch (error) {
      setText(this.#error, asError(error).message);
      this.#token.select();
    } finally {
      this.#button.disabled = false;
    }
  }
}

define("lw-login", Login);
