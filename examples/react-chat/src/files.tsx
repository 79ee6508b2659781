import { useDocumentPolling } from "@longwatch/react";
import { useEffect, useMemo, useState } from "react";
import * as Y from "yjs";

import { PROJECT } from "./server";

/** The files of the project. Several users can edit the open one at once. */
export function Files({ hasProject }: { hasProject: boolean }) {
  const [openPath, setOpenPath] = useState<string>();
  const [changed, setChanged] = useState<ReadonlySet<string>>(new Set());
  const doc = useMemo(() => new Y.Doc({ guid: openPath }), [openPath]);

  const { data: files = [], hasUnsavedChanges } = useDocumentPolling({
    projectId: PROJECT,
    enabled: hasProject,
    documents: openPath === undefined ? {} : { [openPath]: doc },
    onDocumentChange: (changes) =>
      setChanged((before) => new Set([...before, ...changes.map(({ filePath }) => filePath)])),
  });
  const open = (path: string) => {
    setOpenPath((current) => (current === path ? undefined : path));
    setChanged((before) => new Set([...before].filter((each) => each !== path)));
  };

  return (
    <aside className="files" aria-label="Files">
      <h2>Files</h2>
      {files.length === 0 && <p className="empty">The project has no files yet.</p>}
      <ul>
        {files.map(({ path, kind }) => (
          <li key={path}>
            <button
              className="quiet"
              disabled={kind === "binary"}
              aria-expanded={path === openPath}
              onClick={() => open(path)}
            >
              {path}
              {changed.has(path) && path !== openPath && <small> changed</small>}
            </button>
          </li>
        ))}
      </ul>
      {openPath && <Editor key={openPath} path={openPath} text={doc.getText("content")} />}
      {openPath && <p role="status">{hasUnsavedChanges ? "Not saved yet" : "Saved"}</p>}
    </aside>
  );
}

function Editor({ path, text }: { path: string; text: Y.Text }) {
  const [value, setValue] = useState(text.toString());

  useEffect(() => {
    const show = () => setValue(text.toString());
    text.observe(show);
    return () => text.unobserve(show);
  }, [text]);

  return (
    <textarea
      aria-label={path}
      value={value}
      onChange={(event) => replace(text, event.target.value)}
    />
  );
}

/** Change only what differs, so that what others type at the same time stays. */
function replace(text: Y.Text, after: string) {
  const before = text.toString();
  let start = 0;
  while (start < before.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (
    end < Math.min(before.length, after.length) - start &&
    before.at(-1 - end) === after.at(-1 - end)
  )
    end += 1;
  text.doc?.transact(() => {
    text.delete(start, before.length - start - end);
    text.insert(start, after.slice(start, after.length - end));
  });
}
