"""Following runs: followers, the hub that reads once for all of them, and a service that calls back."""

from longwatch.following.callbacks import Subscription
from longwatch.following.drain import DrainLimits
from longwatch.following.follower import Follower, WatchPhase, WatchState
from longwatch.following.hub import Hub
from longwatch.following.items import CaughtUp, Ended, Followed, Item, Missed, Reason
from longwatch.following.polling_service import PollingService, polling_service
from longwatch.following.shared_hub import follow, shared_hub

__all__ = [
    "CaughtUp",
    "DrainLimits",
    "Ended",
    "Followed",
    "Follower",
    "Hub",
    "Item",
    "Missed",
    "PollingService",
    "Reason",
    "Subscription",
    "WatchPhase",
    "WatchState",
    "follow",
    "polling_service",
    "shared_hub",
]
