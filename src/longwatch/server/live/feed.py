"""The feed: opens a topic for a viewer, with the source and the broadcast that its viewers share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from longwatch.errors import NotWorthAnotherTry
from longwatch.following.broadcast import Broadcasts
from longwatch.server.context import ServerContext
from longwatch.server.live.conversation_topics import (
    ConversationSubscription,
    ProjectListRenderer,
    SessionListRenderer,
    TurnListRenderer,
    TurnRenderer,
    state_at,
)
from longwatch.server.live.execution_topics import ExecutionListTopic, ExecutionTopic, project_executions
from longwatch.server.live.list_topics import FilesTopic, RunListTopic
from longwatch.server.live.read_ahead import ReadAhead
from longwatch.server.live.run_topic import Renderer, RunRenderer, RunTopicSource
from longwatch.server.live.subscription import (
    FrameBroadcast,
    RejectedSubscription,
    TopicReader,
    TopicSubscription,
)
from longwatch.server.live.topics import Topic, TopicKind
from longwatch.server.live.viewers import Viewers
from longwatch.turns.ids import PROJECTS_RUN, conversation_run, project_run

Wake = Callable[[], None]


class Feed:
    """All topics of a server. Belongs to the server's event loop."""

    def __init__(self, context: ServerContext) -> None:
        self.context = context
        self.broadcasts = Broadcasts(FrameBroadcast)
        self._runs = RunListTopic(context, self.broadcasts)
        self.viewers = Viewers(self.broadcasts, context.closing, context.clock, is_away=self._is_away)
        self.executions = project_executions(context)
        self._executions = ExecutionListTopic(context, self.executions, self.broadcasts)

    def _is_away(self) -> bool:
        """Whether a store cannot be read: then the last message may not be the newest state."""
        is_away = self._runs.projection.is_away or self.executions.is_away
        return is_away or self.context.hub.trouble() is not None

    def open(self, topic: Topic, after: str, wake: Wake, read_ahead: ReadAhead | None = None) -> TopicReader:
        """Follow a topic from a cursor. An error of either is a message of the topic.

        `read_ahead` is shared by all topics of one client.
        """
        ahead = read_ahead or ReadAhead()
        match topic.kind:
            case TopicKind.RUN:
                return TopicSubscription(self._run(topic), after, wake, ahead)
            case TopicKind.RUNS:
                return TopicSubscription(self._runs, after, wake, ahead)
            case TopicKind.TURN:
                return TopicSubscription(self._turn(topic), after, wake, ahead)
            case TopicKind.SESSION:
                try:
                    return self._conversation(topic, after, wake, ahead)
                except NotWorthAnotherTry as error:  # its cursor has parts, and is parsed at once
                    return RejectedSubscription(topic.name, error)
            case TopicKind.PROJECTS:
                return TopicSubscription(self._projects(topic), after, wake, ahead)
            case TopicKind.SESSIONS:
                return TopicSubscription(self._sessions(topic), after, wake, ahead)
            case TopicKind.FILES:
                files = FilesTopic(topic.name, topic.parts[0], self.context, self.broadcasts)
                return TopicSubscription(files, after, wake, ahead)
            case TopicKind.EXECUTIONS:
                return TopicSubscription(self._executions, after, wake, ahead)
            case TopicKind.EXECUTION:
                one = ExecutionTopic(
                    topic.name, topic.parts[0], self.context, self.executions, self.broadcasts
                )
                return TopicSubscription(one, after, wake, ahead)

    def _run(self, topic: Topic) -> RunTopicSource:
        async def renderer(after: str) -> Renderer:
            return RunRenderer(topic.name)

        return self._following(topic.name, topic.parts[0], renderer)

    def _turn(self, topic: Topic) -> RunTopicSource:
        project, conversation, turn_id = topic.parts
        check = self._turn_check(project, conversation, turn_id)

        async def renderer(after: str) -> Renderer:
            await check()  # raises if there is no such turn
            state = await state_at(self.context.hub, turn_id, after)
            prices = self.context.prices.current
            return TurnRenderer(topic.name, state, clock=self.context.clock, prices=prices)

        return self._following(topic.name, turn_id, renderer, check)

    def _projects(self, topic: Topic) -> RunTopicSource:
        async def renderer(after: str) -> Renderer:
            return ProjectListRenderer(topic.name)

        return self._following(topic.name, PROJECTS_RUN, renderer)

    def _sessions(self, topic: Topic) -> RunTopicSource:
        (project,) = topic.parts

        async def renderer(after: str) -> Renderer:
            await self.context.call(self.context.conversations.project, project)  # raises if there is none
            return SessionListRenderer(topic.name)

        return self._following(topic.name, project_run(project), renderer)

    def _conversation(self, topic: Topic, after: str, wake: Wake, ahead: ReadAhead) -> TopicReader:
        project, conversation = topic.parts
        context = self.context

        async def renderer(after: str) -> Renderer:
            await context.call(context.conversations.conversation, project, conversation)
            return TurnListRenderer(topic.name)

        def make_list(after: str, wake: Wake) -> TopicSubscription:
            run_id = conversation_run(project, conversation)
            return TopicSubscription(self._following(topic.name, run_id, renderer), after, wake, ahead)

        def make_turn(turn_id: str, after: str, wake: Wake) -> TopicSubscription:
            async def renderer(after: str) -> Renderer:
                state = await state_at(context.hub, turn_id, after)
                prices = context.prices.current
                return TurnRenderer(topic.name, state, clock=context.clock, prices=prices, settles=True)

            check = self._turn_check(project, conversation, turn_id)
            return TopicSubscription(
                self._following(topic.name, turn_id, renderer, check), after, wake, ahead
            )

        return ConversationSubscription(
            topic.name, after, make_list=make_list, make_turn=make_turn, wake=wake
        )

    def _turn_check(self, project: str, conversation: str, turn_id: str) -> Callable[[], Awaitable[object]]:
        """Reads a turn, which ends it if its process has exited."""
        return lambda: self.context.call(self.context.conversations.turn, project, conversation, turn_id)

    def _following(
        self,
        topic: str,
        run_id: str,
        renderer: Callable[[str], Awaitable[Renderer]],
        check: Callable[[], Awaitable[object]] | None = None,
    ) -> RunTopicSource:
        return RunTopicSource(
            topic,
            run_id,
            hub=self.context.hub,
            broadcasts=self.broadcasts,
            renderer=renderer,
            check=check,
        )
