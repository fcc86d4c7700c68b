"""The sentences of the page say what the figures are."""

import torch

from resmlp_mt.lab.analysis import findings
from resmlp_mt.lab.analysis.matrices import MixingMatrix
from resmlp_mt.lab.analysis.sparsity import Sparsity


def band(side, layer, reach, length=9):
    """Ones up to a distance."""
    weights = torch.ones(1, length, length).tril(reach).triu(-reach)
    return MixingMatrix(side, layer, "", weights.tril() if side == "decoder" else weights)


def test_half_of_the_weight_is_counted_from_the_diagonal():
    assert findings.half_of_the_weight([band("encoder", 1, 0)]) == 0
    assert findings.half_of_the_weight([band("decoder", 1, 8)]) == 2  # 9 + 8 + 7 of 45
    assert findings.half_of_the_weight([band("encoder", 1, 0), band("encoder", 2, 3)]) == 1  # 9 + 9 + 16 of 60
    text = findings.reach([band("encoder", 1, 1), band("decoder", 1, 8)])
    assert text.endswith("in the encoder within 1 position, in the decoder within 2 positions of the diagonal.")


def test_a_is_called_a_convolution_where_its_diagonals_explain_it():
    text = findings.explained([band("encoder", 1, 0), band("decoder", 2, 3)])
    assert "100% on average: A is nearly a convolution" in text
    random = torch.randn(1, 40, 40, generator=torch.Generator().manual_seed(0))
    noise = MixingMatrix("encoder", 2, "", random)
    assert "A is no convolution" in findings.explained([noise])
    assert "(encoder 2) to 100% (encoder 1) of A" in findings.explained([band("encoder", 1, 0), noise])


def test_the_strongest_diagonal_is_that_of_the_largest_mean():
    shifted = torch.zeros(2, 5, 5)
    shifted[:, range(2, 5), range(3)] = -1.0
    text = findings.explained([MixingMatrix("encoder", 1, "", shifted)])
    assert text.endswith("The strongest diagonal is j - i = -2 in 2 of 2 matrices.")


def test_sparsities_are_compared():
    found = [Sparsity("encoder", 1, "A", 0.5), Sparsity("encoder", 2, "A", 0.3), Sparsity("decoder", 1, "W1", 0.6)]
    text = findings.small_weights(found)
    assert "40% of the weights of A" in text and "60% of those of the other matrices" in text
    assert text.endswith("most are in W1 of decoder 1, 60%.")


def test_what_changed_most_and_least_is_told():
    before = [band("encoder", 1, 0), band("decoder", 1, 0)]
    after = [MixingMatrix("encoder", 1, "", 1.5 * before[0].weights), before[1]]
    text = findings.changes(before, after)
    assert "A of encoder 1 changed most, by 50.0% of its norm, and that of decoder 1 least, by 0.0%" in text


def test_the_largest_weight_is_found():
    weights = torch.zeros(2, 4, 4)
    weights[1, 3, 2] = -7.0
    text = findings.largest([band("encoder", 1, 1), MixingMatrix("decoder", 2, "", weights)])
    assert text.endswith("is -7.00, in decoder 2, head 2, by which position 4 reads position 3.")
