"""Datasets, samplers, and the loader that makes batches of them.

>>> import weft
>>> from weft.utils.data import DataLoader, TensorDataset
>>> data = TensorDataset(weft.arange(6.0).view(3, 2), weft.tensor([0, 1, 0]))
>>> [targets.tolist() for _, targets in DataLoader(data, batch_size=2)]
[[0, 1], [0]]
"""

from weft.utils.data._utils.worker import get_worker_info
from weft.utils.data.dataloader import DataLoader, _DatasetKind, default_collate, default_convert
from weft.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from weft.utils.data.distributed import DistributedSampler
from weft.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "_DatasetKind",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]
