import torch

from resmlp_mt.nn import Aff


def test_it_starts_as_the_identity_before_a_branch_and_as_a_small_scale_behind_it():
    x = torch.randn(3, 2, 5)
    assert torch.equal(Aff(5)(x), x)
    assert torch.allclose(Aff(5, 0.2)(x), 0.2 * x)


def test_it_scales_and_shifts_each_channel():
    aff = Aff(4)
    with torch.no_grad():
        aff.alpha.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        aff.beta.copy_(torch.tensor([0.0, 10.0, 0.0, -1.0]))
    assert aff(torch.ones(2, 1, 4)).tolist() == [[[1.0, 12.0, 3.0, 3.0]]] * 2
