/** A page with one open document, for tests in a real browser. */

import * as Y from "yjs";

import { Api } from "../../core/api.js";
import { DocumentSync } from "../../src/yjs-sync.js";

const doc = new Y.Doc();
const sync = new DocumentSync({ api: new Api(), projectId: "p", path: "a.md", doc });
Object.assign(window, { words: doc.getText("content"), sync });
