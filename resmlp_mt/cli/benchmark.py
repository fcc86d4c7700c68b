"""Measure speed and memory: of architectures, and of engines that translate real text."""

import argparse

from resmlp_mt.cli.arguments import add_flag, add_number, add_path, add_repeated, command_parser, number_within, run_of

SYSTEMS = """
systems:
  resmlp_transformer                              an architecture, untrained, of the size that all have;
                                                  also transformer, lightconv, dynamicconv, fconv, lstm
  resmlp_transformer:layerscale_init=0.1,dropout=0.2
                                                  with options of fairseq-train
  transformer@onednn, resmlp_transformer@onednn:dropout=0.2
                                                  fp32 matrices multiplied by oneDNN instead of BLAS

examples:
  resmlp-mt benchmark all --quick
  resmlp-mt benchmark training --shapes 24x32 --system resmlp_transformer --system transformer --threads 2
  resmlp-mt benchmark translate --help            real text, by fairseq, CTranslate2, Marian and Translator
"""
ENGINES = """
engines:
  transformer.pt                          a checkpoint of any fairseq model, by fairseq's own search
  resmlp.pt:inference_precision=bf16      with options that replace its own; batch_size=64 unless given
  ctranslate2/transformer.pt:compute_type=int8
                                          the file transformer.pt in CTranslate2; max_batch_size=64 unless given,
                                          vmap=FILE, isa=AVX512 (instructions), inter_threads=2 (workers), beam_size=1
  marian/model.npz, ctranslate2/model.npz Marian's own model, its matrices in 8 bits, by pymarian, or in CTranslate2;
                                          options of marian-decoder, with _ for -; vocabularies by model.npz.decoder.yml
  ctranslate2/transformer.pt:compute_type=int8,best
                                          the fastest of instructions, batches and workers, tried on 256 sentences
  FOLDER, FOLDER:precision=bf16           made by resmlp-mt export, in Translator; also engine=compiled, beam=1

Engines take turns, each in its own process. All are compared with the first: rivals, then FOLDERs, then --engine.

examples:
  resmlp-mt benchmark translate en-de --rival ctranslate2/transformer.pt marian/model.npz \\
    --data data-bin --languages en de --text test.en:test.de
  resmlp-mt benchmark translate --engine ctranslate2/transformer.pt:compute_type=int8,best \\
    --engine en-de:engine=compiled,precision=int8 --data data-bin --languages en de --text test.en:test.de --threads 2
"""
MOST = {"width": 1 << 16, "mlp": 1 << 18, "layers": 1000, "heads": 1000, "vocabulary": 1 << 20}
"""The largest sizes allowed: a larger one is a typing mistake."""


def benchmark() -> argparse.ArgumentParser:
    parser = command_parser(SYSTEMS, run_of("benchmarks.command"))
    parser.add_argument("what", choices=["training", "generation", "all"], help="what to measure")
    add_flag(parser, "--quick", "minutes instead of half an hour")
    add_repeated(parser, "--system", "NAME", "what to compare, instead of the default systems")
    parser.add_argument("--baseline", metavar="NAME", help="compare the others with it (default: transformer)")
    shapes = "batches, such as 24x32, lengths in subwords with </s>; one comparison instead of several"
    parser.add_argument("--shapes", nargs="+", metavar="LENGTHxSENTENCES", help=shapes)
    size = parser.add_argument_group("size of the models (default: that of each comparison)")
    size.add_argument("--size", choices=["base", "small"], help="base: the paper's model; small: Multi30k's")
    for name, most in MOST.items():
        add_number(size, f"--{name}", most, f"{name}, instead of that size's", least=5 if name == "vocabulary" else 1)
    conditions = parser.add_argument_group("conditions")
    conditions.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda has been tried little")
    add_flag(conditions, "--fp16", "half precision, on CUDA")
    add_number(conditions, "--threads", 1000, "CPU threads of each process (default: one a core)")
    add_number(conditions, "--beam", 1000, "beam size", 4)
    share = number_within(0, 0.49)
    conditions.add_argument("--padding", type=share, metavar="X", help="share of padding in a batch (default: 0.1)")
    add_number(conditions, "--rounds", 1000, "how often each system is timed (default: depends on the comparison)")
    add_number(conditions, "--warmup", 1000, "untimed rounds before (default: depends on the comparison)")
    add_flag(conditions, "--no-memory", "measure time, not memory")
    add_number(conditions, "--sentences", 10**6, "translate at least so many (default: depends on the comparison)")
    output = parser.add_argument_group("output, beside the tables")
    add_path(output, "--json", "FILE", "all figures")
    add_path(output, "--markdown", "FILE", "the tables")
    add_path(output, "--plots", "FOLDER", "PNG files; needs matplotlib")
    return parser


def benchmark_translate() -> argparse.ArgumentParser:
    parser = command_parser(ENGINES, run_of("benchmarks.real_text"))
    folder = "made by resmlp-mt export; it runs compiled, in int8 (otherwise: --engine)"
    parser.add_argument("folder", nargs="*", metavar="FOLDER", help=folder)
    add_repeated(parser, "--engine", "NAME", "another engine to compare, with its options")
    rival = "CTranslate2 or Marian, fastest settings: short for NAME:compute_type=int8,best or NAME:best"
    parser.add_argument("--rival", nargs="+", default=[], metavar="NAME", help=rival)
    add_path(parser, "--data", "DATA_BIN", "the training's binarized data", required=True)
    parser.add_argument("--languages", nargs=2, required=True, metavar=("SOURCE", "TARGET"), help="such as en de")
    add_repeated(parser, "--text", "SOURCE[:REFERENCE]", "plain text files", required=True)
    add_number(parser, "--threads", 1000, "CPU threads of each engine", 1)
    add_number(parser, "--beam", 1000, "beam size", 4)
    add_number(parser, "--rounds", 1000, "how often each engine is timed", 5)
    output = parser.add_argument_group("output, beside the table")
    add_path(output, "--json", "FILE", "all figures")
    add_path(output, "--markdown", "FILE", "the table")
    add_path(output, "--plot", "FILE", "BLEU against speed, a PNG; needs matplotlib")
    return parser
