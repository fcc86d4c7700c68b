"""What a client may ask the server and what it answers: limits, how a request is read, the OpenAPI document."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from resmlp_mt import __version__
from resmlp_mt.common.errors import UserError
from resmlp_mt.translate.options import TOO_LONG, Options

if TYPE_CHECKING:
    from resmlp_mt.translate.translator import Translation

LARGEST_PENALTY = 10
BYTES_OF_A_CHARACTER = 12  # in JSON at most: two of \uXXXX
BYTES_BESIDE_TEXTS = 1000
KINDS = {"integer": (int,), "number": (int, float), "string": (str,), "boolean": (bool,)}


class TooLargeError(UserError):
    """A request is over a limit of its size."""


@dataclass(frozen=True)
class Limits:
    """What a server takes on.

    Attributes:
        characters: of all texts of a request, with one more for each text
        beam: width of a search
        waiting: requests that wait for their turn
        seconds: from a request's head to its answer
        longest_wait: seconds that a request waits for others, to be translated together, while nothing is translated
    """

    characters: int = 5000
    beam: int = 12
    waiting: int = 64
    seconds: float = 30.0
    longest_wait: float = 0.005

    @property
    def bytes(self) -> int:
        """Of a request's body, so that no request of so many characters is larger."""
        return self.characters * BYTES_OF_A_CHARACTER + BYTES_BESIDE_TEXTS


@dataclass(frozen=True)
class Request:
    """Texts, and how they are to be translated."""

    texts: tuple[str, ...]
    options: Options

    @property
    def characters(self) -> int:
        return sum(len(text) + 1 for text in self.texts)


def option_schemas(limits: Limits) -> dict[str, dict[str, Any]]:
    """The options of a request, as JSON schemas."""
    whole = {"type": "integer", "minimum": 1, "maximum": limits.beam}
    return {
        "beam": {**whole, "description": "Width of the search. Default: the model's."},
        "n_best": {**whole, "default": 1, "description": "Translations of each text, at most the beam."},
        "length_penalty": {
            "type": "number",
            "minimum": -LARGEST_PENALTY,
            "maximum": LARGEST_PENALTY,
            "description": "A score is the log-probability of T tokens / T ** length_penalty. Default: the model's.",
        },
        "too_long": {
            "type": "string",
            "enum": list(TOO_LONG),
            "default": Options.too_long,
            "description": "What is done with a text of more tokens than the model takes.",
        },
        "alignment": {
            "type": "boolean",
            "default": False,
            "description": "Tell the weights of the cross-attention of each token of the translation.",
        },
    }


def read_request(body: bytes, limits: Limits) -> Request:
    """The request in a body of JSON.

    Raises:
        TooLargeError: its texts are longer than they may be
        UserError: it is not what the OpenAPI document says
    """
    try:
        values = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise UserError("the body is not JSON: send an object with texts, a list of strings") from error
    if not isinstance(values, dict):
        raise UserError("the body is not an object: send one with texts, a list of strings")
    _check_names(values, ("texts", "options"), "the body")
    texts, options = values.get("texts"), values.get("options", {})
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UserError("texts: give a list of strings")
    if not isinstance(options, dict):
        raise UserError("options: give an object")
    schemas = option_schemas(limits)
    _check_names(options, schemas, "options")
    for name, value in options.items():
        _check(name, value, schemas[name])
    for number, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UserError(f"texts[{number}]: half of a pair of surrogates is no character: remove it") from error
    request = Request(tuple(texts), Options(**options))
    if request.characters > limits.characters:
        raise TooLargeError(
            f"texts: {request.characters:,} characters with a line end each, but a request may have "
            f"{limits.characters:,}: send several requests"
        )
    return request


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _check_names(values: Iterable[str], known: Iterable[str], where: str) -> None:
    for name in values:
        if name not in known:
            raise UserError(f"{where} has {name!r:.40}: give {', '.join(known)} alone")


def _check(name: str, value: Any, schema: dict[str, Any]) -> None:
    least, most, choices = schema.get("minimum"), schema.get("maximum"), schema.get("enum", ())
    right = type(value) in KINDS[schema["type"]]
    if right and choices:
        right = value in choices
    if right and least is not None:
        right = least <= value <= most
    if not right:
        wanted = {
            "integer": f"a whole number from {least} to {most}",
            "number": f"a number from {least} to {most}",
            "string": f"one of {', '.join(choices)}",
            "boolean": "true or false",
        }
        raise UserError(f"options: {name} is {value!r:.40}: give {wanted[schema['type']]}")


def result(translations: Sequence["Translation"]) -> dict[str, Any]:
    """What is answered for a text, of its translations, best first: as a line of ``resmlp-mt translate --json``.

    Weights of an alignment have four digits.
    """
    return {
        "source_tokens": translations[0].source_tokens,
        "translations": [
            {
                "text": each.text,
                "score": each.score,
                "tokens": each.tokens,
                "alignment": each.alignment and [[round(weight, 4) for weight in row] for row in each.alignment],
            }
            for each in translations
        ],
    }


def document(limits: Limits, needs_token: bool) -> dict[str, Any]:
    """The OpenAPI document (version 3.1) of a server."""
    strings = {"type": "array", "items": {"type": "string"}}
    numbers = {"type": "array", "items": {"type": "number"}}
    translation = {
        "text": {"type": "string"},
        "score": {"type": "number", "description": "Natural logarithm; translations are ranked by it."},
        "tokens": {**strings, "description": "T subwords."},
        "alignment": {
            "type": ["array", "null"],
            "items": numbers,
            "description": "T x S+1: for each token, the weights of the source's tokens and, last, of its end.",
        },
    }
    text = {
        "source_tokens": {**strings, "description": "S subwords."},
        "translations": {"type": "array", "items": _object(translation), "description": "The best one first."},
    }
    mixing = {
        "position": {"type": "integer"},
        "layers": {
            "type": "array",
            "items": {"type": ["array", "null"], "items": numbers},
            "description": "Of each decoder layer, for each head the row of A: the weights by which this position "
            "reads positions 0 to itself. null: a layer without such a matrix.",
        },
    }
    health = {
        "status": {"type": "string", "const": "ok"},
        "source_language": {"type": "string"},
        "target_language": {"type": "string"},
        "longest_source": {"type": "integer", "description": "Tokens that the model takes at once."},
        "waiting": {"type": "integer", "description": "Requests."},
    }
    request = {
        "texts": {**strings, "description": f"{limits.characters} characters in all, and one more a text."},
        "options": {**_object(option_schemas(limits)), "required": []},
    }
    refusals = {"403": "Another site's page asks, or Host is not this server's name."}
    if needs_token:
        refusals["401"] = "The token is missing or wrong."
    asked: dict[str, Any] = {
        "operationId": "translate",
        "summary": "Translate texts of a sentence or a few",
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {**_object(request), "required": ["texts"]}}},
        },
        "responses": {
            "200": _response(
                "For each text, in order, its translations",
                _object({"results": {"type": "array", "items": _object(text)}}),
            ),
            **_refusals(
                {
                    **refusals,
                    "400": "The request is not as described here, or a text is too long for the model.",
                    "413": "The texts or the body are longer than a request's may be.",
                    "415": "The body's Content-Type is not application/json.",
                    "429": f"{limits.waiting} requests are waiting already.",
                    "503": f"There is no answer after {limits.seconds:g} seconds.",
                }
            ),
        },
    }
    row: dict[str, Any] = {
        "operationId": "mixing",
        "summary": "Which earlier positions of a translation the decoder's matrices A read: the same for every text",
        "parameters": [
            {
                "name": "position",
                "in": "query",
                "required": True,
                "schema": {"type": "integer", "minimum": 0},
                "description": "Position t makes token t, counted from 0. Position 0 reads the start of the sentence, "
                "position t token t - 1.",
            }
        ],
        "responses": {
            "200": _response("Rows of the matrices A", _object(mixing)),
            **_refusals({**refusals, "400": "The model has no such position."}),
        },
    }
    told = {
        "operationId": "health",
        "summary": "Whether the server answers, and what it translates",
        "responses": {"200": _response("It does", _object(health)), **_refusals({"403": refusals["403"]})},
    }
    components: dict[str, Any] = {"schemas": {"Refusal": _object({"error": {"type": "string"}})}}
    if needs_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        asked["security"] = row["security"] = [{"token": []}]
    return {
        "openapi": "3.1.0",
        "info": {"title": "resmlp-mt serve", "version": __version__, "summary": "Translation without self-attention"},
        "paths": {"/translate": {"post": asked}, "/mixing": {"get": row}, "/health": {"get": told}},
        "components": components,
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _response(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _refusals(descriptions: dict[str, str]) -> dict[str, Any]:
    refusal = {"$ref": "#/components/schemas/Refusal"}
    return {status: _response(description, refusal) for status, description in sorted(descriptions.items())}
