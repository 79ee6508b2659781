"""What is new: followers of runs, the hub that reads once for all of them, and a service that calls back."""

from longwatch.following.current import polling_service
from longwatch.following.drain import DrainLimits
from longwatch.following.follower import Follower, Phase, WatchState
from longwatch.following.hub import Hub
from longwatch.following.items import CaughtUp, Ended, Followed, Item, Missed, Reason
from longwatch.following.service import PollingService
from longwatch.following.sharing import follow, shared_hub
from longwatch.following.subscriptions import Subscription

__all__ = [
    "CaughtUp",
    "DrainLimits",
    "Ended",
    "Followed",
    "Follower",
    "Hub",
    "Item",
    "Missed",
    "Phase",
    "PollingService",
    "Reason",
    "Subscription",
    "WatchState",
    "follow",
    "polling_service",
    "shared_hub",
]
