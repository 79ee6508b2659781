"""OpenTelemetry in: spans and log records of any process become the events of runs.

`span` is a span without any SDK, the dialects name its attributes, and `span_events` translates it. The span
processor in `longwatch.integrations.otel` and the OTLP routes of the server share all of this.
"""
