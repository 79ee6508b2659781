/** Actions that create projects and sessions. */

import { useMemo } from "react";

import { createProject, createSession } from "./polling/actions.js";
import { useLongwatch } from "./provider.js";

/** @import { ProjectActions } from "../index.js" */

/** @returns {ProjectActions} */
export function useProjectActions() {
  const { api } = useLongwatch();
  return useMemo(
    () => ({
      createProject: async (project) => withDate(await createProject(api, project)),
      createSession: async (projectId, session) =>
        withDate(await createSession(api, projectId, session)),
    }),
    [api],
  );
}

/** @template {{created_at: string}} T @param {T} created @returns {Omit<T, "created_at"> & {created_at: Date}} */
function withDate({ created_at: createdAt, ...rest }) {
  return { ...rest, created_at: new Date(createdAt) };
}
