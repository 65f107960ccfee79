# SPDX-License-Identifier: Apache-2.0
"""Cross entropies with class weights, ignored labels, smoothing and soft labels: losses.safetensors.

    logits, labels, soft    7 samples of 5 classes (float values; int32, one of them -1; float)
    <case>.loss             the mean, as PyTorch divides
    <case>.gradient         of the logits
"""

import numpy as np
import torch
from torch.nn import functional

WEIGHTS = [0.25, 1.5, 1.0, 0.0, 3.0]


def losses():
    random = torch.Generator().manual_seed(17)
    logits = (3 * torch.randn(7, 5, generator=random)).float().double()
    labels = torch.tensor([1, 4, -1, 0, 2, 3, 4])
    soft = torch.softmax(torch.randn(7, 5, generator=random), 1).float()
    weight = torch.tensor(WEIGHTS, dtype=torch.float64)
    cases = {
        "ignored": (labels, {"ignore_index": -1}),
        "weighted": (labels.clamp(min=0), {"weight": weight}),
        "all": (labels, {"weight": weight, "ignore_index": -1, "label_smoothing": 0.1}),
        "soft": (soft.double(), {}),
        "soft_all": (soft.double(), {"weight": weight, "label_smoothing": 0.1}),
    }
    file = {"logits": logits.numpy(), "labels": labels.int().numpy(), "soft": soft.numpy()}
    for name, (targets, options) in cases.items():
        z = logits.clone().requires_grad_()
        loss = functional.cross_entropy(z, targets, **options)
        loss.backward()
        file[f"{name}.loss"] = np.array([loss.item()])
        file[f"{name}.gradient"] = z.grad.numpy()
    return file
