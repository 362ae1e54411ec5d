"""The loops that promote, expire, prune and schedule jobs, safe to run in all processes at once."""

from ackline.core.cron import Schedule
from ackline.maintenance.loop import LoopStats, MaintenanceLoop
from ackline.maintenance.maintenance import Maintenance, MaintenanceStats
from ackline.maintenance.promoter import Promoter
from ackline.maintenance.pruner import Pruner
from ackline.maintenance.reaper import ExpiredLeases, Reaper, expire_worker, recover
from ackline.maintenance.scheduler import Scheduler
from ackline.maintenance.store_monitor import StoreMonitor

__all__ = [
    "ExpiredLeases",
    "LoopStats",
    "Maintenance",
    "MaintenanceLoop",
    "MaintenanceStats",
    "Promoter",
    "Pruner",
    "Reaper",
    "Schedule",
    "Scheduler",
    "StoreMonitor",
    "expire_worker",
    "recover",
]
