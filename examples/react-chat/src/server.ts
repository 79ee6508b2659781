/** Where the chat is stored. */

export const SERVER = "http://127.0.0.1:8321";
export const PROJECT = "demo";
