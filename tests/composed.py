"""What fairseq asks of Hydra in each of its commands, kept: half of what a command of a tiny model takes.

Which of its files Hydra reads depends on the groups that are chosen (``task=translation``). It reads them once for each
choice; the values (``task.data=...``) are then set on a copy, by Hydra itself.
"""

import copy
import functools

import fairseq.dataclass.utils
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser

compose = fairseq.dataclass.utils.compose


@functools.cache
def of_groups(config_name, groups, strict):
    return compose(config_name, overrides=list(groups), strict=strict)


@functools.cache
def parsed(override):
    return OverridesParser.create().parse_overrides([override])[0]


def quick_compose(config_name, overrides, strict):
    groups = tuple(override for override in overrides if "." not in override.partition("=")[0])
    config = copy.deepcopy(of_groups(config_name, groups, strict))
    values = [parsed(override) for override in overrides if override not in groups]
    ConfigLoaderImpl._apply_overrides_to_config(values, config)
    return config


fairseq.dataclass.utils.compose = quick_compose
