// Sends one trace of an agent with the exporter that the first argument names, to the URL in the environment.
// The second argument is a file beside the node_modules with the packages.

import { createRequire } from "node:module";

const [name, packages] = process.argv.slice(2);
const require = createRequire(packages);
const { SpanStatusCode, context, trace } = require("@opentelemetry/api");
const { BasicTracerProvider, BatchSpanProcessor } = require("@opentelemetry/sdk-trace-base");
const { OTLPTraceExporter } = require(`@opentelemetry/${name}`);

const failures = [];
const exporter = new OTLPTraceExporter();
const provider = new BasicTracerProvider({
  spanProcessors: [
    new BatchSpanProcessor({
      export: (spans, done) =>
        exporter.export(spans, (result) => {
          if (result.error) failures.push(String(result.error));
          done(result);
        }),
      shutdown: () => exporter.shutdown(),
    }),
  ],
});
const tracer = provider.getTracer("tests");

const root = tracer.startSpan("POST /ask");
const inRoot = trace.setSpan(context.active(), root);
const agent = tracer.startSpan(
  "invoke_agent Ada",
  { attributes: { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Ada" } },
  inRoot,
);
const inAgent = trace.setSpan(inRoot, agent);
const step = tracer.startSpan("event loop cycle", {}, inAgent);
const tool = tracer.startSpan(
  "execute_tool search",
  {
    attributes: {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.call.arguments": '{"query": "tides"}',
    },
  },
  trace.setSpan(inAgent, step),
);
tool.recordException(new Error("no tides"));
tool.setStatus({ code: SpanStatusCode.ERROR, message: "no tides" });
tool.end();
step.end();
const chat = tracer.startSpan(
  "chat large",
  {
    attributes: {
      "gen_ai.operation.name": "chat",
      "gen_ai.usage.input_tokens": 12,
      "gen_ai.request.temperature": 0.5,
      "gen_ai.response.finish_reasons": ["stop"],
    },
  },
  inAgent,
);
chat.end();
agent.end();
root.end();

await provider.forceFlush().catch((error) => failures.push(String(error)));
await provider.shutdown();
console.log(JSON.stringify({ traceId: root.spanContext().traceId, failures }));
