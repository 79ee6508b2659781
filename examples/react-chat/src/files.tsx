import { useDocumentPolling } from "@longwatch/react";
import { useEffect, useMemo, useState } from "react";
import * as Y from "yjs";

/** The files of the project; the one that is open can be edited by everybody at once. */
export function Files() {
  const [openPath, setOpenPath] = useState<string>();
  const [news, setNews] = useState<string>();
  const doc = useMemo(() => new Y.Doc({ guid: openPath }), [openPath]);

  const { data: files = [], hasUnsavedChanges } = useDocumentPolling({
    documents: openPath === undefined ? {} : { [openPath]: doc },
    onDocumentChange: (changes) =>
      setNews(changes.map((each) => `${each.filePath} ${each.changeType}`).join(", ")),
  });

  return (
    <section aria-label="Files">
      <ul>
        {files.map((file) => (
          <li key={file.path}>
            <button disabled={file.kind === "binary"} onClick={() => setOpenPath(file.path)}>
              {file.path}
            </button>
          </li>
        ))}
      </ul>
      {news && <p role="status">{news}</p>}
      {hasUnsavedChanges && <p role="status">Not saved yet</p>}
      {openPath && <Editor key={openPath} path={openPath} text={doc.getText("content")} />}
    </section>
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
