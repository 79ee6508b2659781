"""A local HTTP server that speaks the wire formats of model providers, for tests without a network.

    with ModelServer(ModelReply("Paris", input_tokens=12, output_tokens=3)) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="test", max_retries=0)

It answers OpenAI chat completions, responses and embeddings, Anthropic messages, and Bedrock Converse, each
with and without streaming. One script serves all of them: a reply is encoded as the request's API does it.
"""

from longwatch.testing.model_server.script import (
    ModelApi,
    ModelFailure,
    ModelReply,
    ModelRequest,
    ScriptedToolCall,
)
from longwatch.testing.model_server.server import ModelServer

__all__ = ["ModelApi", "ModelFailure", "ModelReply", "ModelRequest", "ModelServer", "ScriptedToolCall"]
