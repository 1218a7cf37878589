"""Every kind of experiment, by what `kind` says in its file."""

from pydantic import BaseModel

from pagelab.reproduce.calls import Calls
from pagelab.reproduce.collisions import Collisions
from pagelab.reproduce.counted import Counted
from pagelab.reproduce.guests import Guests
from pagelab.reproduce.machine import OnMachine
from pagelab.reproduce.native import Native
from pagelab.reproduce.nodes import Nodes
from pagelab.reproduce.placement import Placement
from pagelab.reproduce.ranges import Ranges
from pagelab.reproduce.simulated import Simulated

KINDS: dict[str, type[BaseModel]] = {
    "simulate": Simulated,
    "collisions": Collisions,
    "guest": Guests,
    "nodes": Nodes,
    "placement": Placement,
    "ranges": Ranges,
    "calls": Calls,
    "counted": Counted,
    "native": Native,
    "machine": OnMachine,
}
