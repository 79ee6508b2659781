/** The viewer's custom elements, so that `h("lw-log")` has the type of its element. */

import type { Detail } from "../src/longwatch/server/page/viewer/app/event-detail.js";
import type { FilesPanel } from "../src/longwatch/server/page/viewer/app/files-panel.js";
import type { Calls } from "../src/longwatch/server/page/viewer/app/run-calls.js";
import type { GraphView } from "../src/longwatch/server/page/viewer/app/run-graph.js";
import type { RunHead } from "../src/longwatch/server/page/viewer/app/run-head.js";
import type { RunLog } from "../src/longwatch/server/page/viewer/app/run-log.js";
import type { Timeline } from "../src/longwatch/server/page/viewer/app/run-timeline.js";
import type { RunView } from "../src/longwatch/server/page/viewer/app/run-view.js";
import type { Stages } from "../src/longwatch/server/page/viewer/app/stage-table.js";
import type { WindowList } from "../src/longwatch/server/page/viewer/app/window-list.js";

declare global {
  interface HTMLElementTagNameMap {
    "lw-calls": Calls;
    "lw-detail": Detail;
    "lw-files": FilesPanel;
    "lw-graph": GraphView;
    "lw-log": RunLog;
    "lw-run": RunView;
    "lw-run-head": RunHead;
    "lw-stages": Stages;
    "lw-timeline": Timeline;
    "lw-window": WindowList;
  }
}
