/** Paths of the server's routes. */

const encode = encodeURIComponent;

/** @param {string} runId */
export const runPath = (runId) => `/api/runs/${encode(runId)}`;

/**
 * Without a plan the id is `plan/execution`, or an id that only one plan has.
 * @param {string} executionId @param {string | null} [planId]
 */
export const executionPath = (executionId, planId = null) =>
  `/api/executions/${planId === null ? "" : `${encode(planId)}/`}${encode(executionId)}`;

/**
 * The first slash separates the two ids, so slashes and percent signs of the plan are encoded.
 * @param {string} planId @param {string} executionId
 */
export const executionTopic = (planId, executionId) =>
  `execution:${planId.replaceAll("%", "%25").replaceAll("/", "%2F")}/${executionId}`;

/** @param {string} projectId */
export const projectPath = (projectId) => `/api/projects/${encode(projectId)}`;

/** @param {string} projectId @param {string} sessionId */
export const sessionPath = (projectId, sessionId) =>
  `${projectPath(projectId)}/sessions/${encode(sessionId)}`;

/** @param {string} projectId @param {string} sessionId */
export const turnsPath = (projectId, sessionId) => `${sessionPath(projectId, sessionId)}/turns`;

/** @param {string} projectId @param {string} sessionId @param {string} turnId */
export const turnPath = (projectId, sessionId, turnId) =>
  `${turnsPath(projectId, sessionId)}/${encode(turnId)}`;

/** @param {string} projectId */
export const filesPath = (projectId) => `${projectPath(projectId)}/files`;

/** @param {string} projectId @param {string} path */
export const documentPath = (projectId, path) =>
  `${projectPath(projectId)}/documents/${filePath(path)}`;

/** @param {string} projectId @param {string} path */
export const contentPath = (projectId, path) =>
  `${projectPath(projectId)}/content/${filePath(path)}`;

/** @param {string} path */
function filePath(path) {
  return path.split("/").map(encode).join("/");
}
