/**
 * `<lw-login>`: asks for the token when the server wants one. The token is exchanged for a cookie that scripts
 * cannot read, and is kept nowhere here.
 */

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
            "This server asks for a token. ",
            h("code", {}, "longwatch serve"),
            " prints a sign-in link that works once, and the file that holds the tokens.",
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
