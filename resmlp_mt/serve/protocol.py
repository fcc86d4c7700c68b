"""The requests and answers as pydantic models, and the OpenAPI document that describes them."""

import json
from dataclasses import Field as DataclassField
from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import models_json_schema
from typing_extensions import TypedDict

from resmlp_mt import __version__
from resmlp_mt.common.options import types_of
from resmlp_mt.serve.batching import Job, job_of
from resmlp_mt.serve.libretranslate import Detected, LibreTranslateRequest, Translated
from resmlp_mt.serve.settings import Limits
from resmlp_mt.translate.documents import FORMATS, document_of
from resmlp_mt.translate.options import Options
from resmlp_mt.translate.translator import Translation

CLOSED = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
OPTIONS = "too_long", "alignment", "alignment_by", "prefix", "glossary", "avoid"
GLOSSARY = "for each source term its translation, or a list of forms, of which the translation has one"
SCHEMAS = "#/components/schemas/"
Weight = Annotated[float, AfterValidator(lambda weight: round(weight, 4))]


class Request(BaseModel):
    """Texts, and how they are to be translated."""

    model_config = CLOSED
    texts: list[str]
    options: dict[str, Any] = {}
    format: Literal[tuple(FORMATS)] | None = Field(  # type: ignore[valid-type]
        None, description="Each text is a document in this format, with any number of sentences; it keeps its layout."
    )

    def job(self, language: str) -> Job:
        """Return the job of this request; ``language`` is that of the texts."""
        options = Options(**self.options)
        if self.format is None:
            plain = len(self.texts) * [False]
            return Job(self.texts, plain, options, lambda found: _body(Answer(results=[*map(_result, found)])), "texts")
        documents = [document_of(text, self.format, language) for text in self.texts]

        def answer(found: list[list[list[Translation]]]) -> bytes:
            translated = []
            for document, sentences in zip(documents, found, strict=True):
                text = document.joined([best for best, *_ in sentences])
                pairs = zip(document.sentences, sentences, strict=True)
                results = [Sentence(source=source, **dict(_result(each))) for source, each in pairs]
                translated.append(TranslatedDocument(text=text, sentences=results))
            return _body(DocumentsAnswer(documents=translated))

        return job_of(documents, options, answer)


def _body(answer: BaseModel) -> bytes:
    return answer.model_dump_json().encode()


def request_model(limits: Limits) -> type[Request]:
    """Return the model of a server's requests: ``Request`` with the server's limits."""
    ranges = {"beam": (1, limits.max_beam), "n_best": (1, limits.max_beam), "length_penalty": (-10, 10)}
    options = {
        each.name: _option_type(each, *ranges.get(each.name, (None, None)))
        for each in fields(Options)
        if each.name in (*ranges, *OPTIONS)
    }
    names = TypedDict("RequestOptions", options, total=False)  # type: ignore[misc]
    names.__pydantic_config__ = CLOSED  # type: ignore[attr-defined]
    limit = f"{limits.max_characters} characters at most; each sentence counts one more. Otherwise status 413."
    texts: Any = (list[str], Field(description=limit))
    return create_model("TranslateRequest", __base__=Request, texts=texts, options=(names, {}))


def _option_type(option: "DataclassField[Any]", least: float | None, most: float | None) -> Any:
    """Return the type of an option of translating, with its range and description."""
    about = option.metadata
    kinds = {"glossary": dict[str, str | list[str]], "avoid": list[str]}
    kind = kinds.get(option.name) or types_of(option.type)[0]
    if "choices" in about:
        kind = Literal[about["choices"]]
    default = "" if option.default in (None, ()) else f" (default: {json.dumps(option.default)})"
    text = GLOSSARY if option.name == "glossary" else about["help"] + default
    return Annotated[kind, Field(ge=least, le=most, description=text)]


class Hypothesis(BaseModel):
    text: str
    score: float = Field(description="Natural logarithm; translations are ranked by it.")
    tokens: list[str] = Field(description="T subwords.")
    alignment: list[list[Weight]] | None = Field(
        description="T x S+1: for each token the weights of the source's S tokens, then of </s>."
    )
    token_scores: list[Weight] = Field(description="The natural log-probability of each token.")
    words: list[tuple[str, Weight]] = Field(description="The text, split at white space; each word's log-probability.")
    word_links: list[tuple[int, int]] | None = Field(
        description="With alignment: pairs of word numbers [source, target], counted from 0: the source word that each "
        "word of the translation attends to most. Words are split at white space."
    )


class Result(BaseModel):
    """The translations of one text, as a line of ``resmlp-mt translate --json``."""

    source_tokens: list[str] = Field(description="S subwords.")
    translations: list[Hypothesis] = Field(description="The best one first.")


class Answer(BaseModel):
    results: list[Result] = Field(description="For each text, in order.")


class Sentence(Result):
    source: str


class TranslatedDocument(BaseModel):
    text: str = Field(description="The document with the best translation of each sentence.")
    sentences: list[Sentence]


class DocumentsAnswer(BaseModel):
    documents: list[TranslatedDocument] = Field(description="For each text, in order.")


def _result(translations: list[Translation]) -> Result:
    hypotheses = [Hypothesis.model_validate(each, from_attributes=True) for each in translations]
    return Result(source_tokens=translations[0].source_tokens, translations=hypotheses)


class Mixing(BaseModel):
    position: int
    layers: list[list[list[Weight]] | None] = Field(
        description="For each decoder layer and head: a row of A, the weights with which this position reads positions "
        "0 to itself. null: a layer without such a matrix."
    )


class Health(BaseModel):
    status: Literal["ok"] = "ok"
    source_language: str
    target_language: str
    longest_source: int = Field(description="Most tokens of a sentence.")
    waiting: int = Field(description="Number of waiting requests.")


class Refusal(BaseModel):
    error: str


class Language(BaseModel):
    code: str
    name: str
    targets: list[str] = Field(description="Languages that it can be translated into.")


def document(limits: Limits, needs_token: bool) -> dict[str, Any]:
    """Return the OpenAPI document (version 3.1) of a server."""
    asked = request_model(limits)
    answers = Answer, DocumentsAnswer, Translated, Detected, Language, Mixing, Health, Refusal
    models = [
        *((model, "serialization") for model in answers),
        *((model, "validation") for model in (asked, LibreTranslateRequest)),
    ]
    _, schemas = models_json_schema(models, ref_template=SCHEMAS + "{model}")  # type: ignore[arg-type]
    refusals = {
        400: "The request is not as described here, or too long for the model.",
        401: "The token is missing or wrong.",
        403: "Another site's page asks, Host is not this server's name, or api_key is wrong.",
        413: "The texts or the body are longer than a request's may be.",
        415: "The body's Content-Type is neither application/json nor that of a form's fields.",
        429: f"{limits.max_waiting} requests are waiting already.",
        503: f"There is no answer after {limits.max_seconds} seconds.",
    }
    token = [401] if needs_token else []

    def reference(*models: type[BaseModel]) -> dict[str, Any]:
        found = [{"$ref": SCHEMAS + model.__name__} for model in models]
        return found[0] if len(found) == 1 else {"oneOf": found}

    def content(schema: dict[str, Any], form: dict[str, Any] | None = None) -> dict[str, Any]:
        forms = {"application/x-www-form-urlencoded": {"schema": form}} if form else {}
        return {"content": {"application/json": {"schema": schema}, **forms}}

    def operation(name: str, summary: str, answer: dict[str, Any], statuses: list[int]) -> dict[str, Any]:
        refused = content(reference(Refusal))
        responses = {str(status): {"description": refusals[status], **refused} for status in statuses}
        secured: dict[str, Any] = {"security": [{"token": []}]} if 401 in statuses else {}
        right = {"200": {"description": summary, **content(answer)}}
        return {"operationId": name, "summary": summary, "responses": {**right, **responses}, **secured}

    both = "Translate texts: with the field texts by this server's own interface, with q by LibreTranslate's"
    statuses = [400, *token, 403, 413, 415, 429, 503]
    translate = operation("translate", both, reference(Answer, DocumentsAnswer, Translated), statuses)
    form = reference(LibreTranslateRequest)
    translate["requestBody"] = {"required": True, **content(reference(asked, LibreTranslateRequest), form)}
    summary = "Which of the model's two languages a text is likelier in, by its sequences of letters (py3langid)"
    detect = operation("detect", summary, {"type": "array", "items": reference(Detected)}, [400, 403, 413, 415, 503])
    text = {"type": "object", "required": ["q"], "properties": {"q": {"type": "string"}, "api_key": {"type": "string"}}}
    detect["requestBody"] = {"required": True, **content(text, text)}
    languages = {"type": "array", "items": reference(Language)}
    settings = operation("settings", "LibreTranslate's settings of a page", {"type": "object"}, [403])
    summary = "Which earlier positions of a translation the decoder's matrices A read: the same for every text"
    mixing = operation("mixing", summary, reference(Mixing), [400, *token, 403])
    about = "Position t makes token t, counted from 0. It reads token t - 1; position 0 the start of the sentence."
    position = {"name": "position", "in": "query", "required": True, "description": about}
    mixing["parameters"] = [{**position, "schema": {"type": "integer", "minimum": 0}}]
    health = operation("health", "Whether the server answers, and what it translates", reference(Health), [403])
    schemes = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if needs_token else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": "resmlp-mt serve", "version": __version__, "summary": "Translation without self-attention"},
        "paths": {
            "/translate": {"post": translate},
            "/detect": {"post": detect},
            "/languages": {"get": operation("languages", "The model's two languages", languages, [403])},
            "/frontend/settings": {"get": settings},
            "/mixing": {"get": mixing},
            "/health": {"get": health},
        },
        "components": {"schemas": schemas["$defs"], **schemes},
    }
