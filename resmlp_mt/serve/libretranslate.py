"""LibreTranslate's interface, its requests and its answers, so that its clients work with this server."""

import functools
import re
import threading
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json
from starlette.exceptions import HTTPException

from resmlp_mt.common.errors import UserError
from resmlp_mt.serve.batching import Job, job_of
from resmlp_mt.serve.settings import Access, Limits
from resmlp_mt.text.tokenizer import TextSettings
from resmlp_mt.translate.documents import document_of
from resmlp_mt.translate.marks import Parts
from resmlp_mt.translate.options import Options
from resmlp_mt.translate.translator import Translation

AUTO = "auto"
END_TAG = re.compile(r"</[A-Za-z][A-Za-z0-9]*\s*>")
NAMES = {"cs": "Czech", "de": "German", "en": "English", "es": "Spanish", "fr": "French", "it": "Italian"}
NAMES |= {"nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "uk": "Ukrainian"}


class LibreTranslateRequest(BaseModel):
    """In a form's fields all values are text. Fields that are not known are ignored, as LibreTranslate does."""

    model_config = ConfigDict(allow_inf_nan=False)
    q: str | list[str] = Field(description="A text, or in JSON a list of texts.")
    source: str = Field(description=f"The model's source language, or {AUTO}: text in the target language stays.")
    target: str = Field(description="The model's target language.")
    format: Literal["text", "html"] | None = Field(
        None, description="Default: html if the text has an end tag such as </b>, else text."
    )
    alternatives: int = Field(0, ge=0, description="Number of further translations.")
    prefix: str | None = Field(None, description="Sentences begin with it. LibreTranslate has none of these three.")
    glossary: dict[str, str | list[str]] = {}
    avoid: list[str] = []
    api_key: str | None = Field(None, description="The server's token.")


class Detected(BaseModel):
    confidence: float = Field(description="In percent.")
    language: str


class Translated(BaseModel):
    translatedText: str | list[str] = Field(description="A list if q is a list.")
    alternatives: list[str] | list[list[str]] | None = Field(None, description="If asked for.")
    detectedLanguage: Detected | list[Detected] | None = Field(None, description=f"If source is {AUTO}.")


LOADING = threading.Lock()  # else requests at the same moment would each load the identifier


def is_form(content_type: str) -> bool:
    """Whether a body is a form's, or there is none: some clients send all fields in the address."""
    return content_type in ("application/x-www-form-urlencoded", "")


def fields_of(body: bytes, content_type: str, query: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the fields of a request of this interface; None if it is a request of our own interface."""
    if is_form(content_type):
        return {**query, **dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))}
    try:
        values = from_json(body)
    except ValueError:  # our own interface reports what is wrong
        return None
    return values if isinstance(values, dict) and values.keys() & {"q", "source", "target"} else None


class LibreTranslate:
    """Answers requests for a model of two languages."""

    def __init__(self, languages: TextSettings, limits: Limits, access: Access):
        self._source, self._target = languages.source_language, languages.target_language
        self._limits, self._access = limits, access

    def languages(self) -> list[dict[str, Any]]:
        targets = {self._source: [self._target], self._target: []}
        return [{"code": code, "name": NAMES.get(code, code), "targets": to} for code, to in targets.items()]

    def settings(self) -> dict[str, Any]:
        source, target = ({"code": each["code"], "name": each["name"]} for each in self.languages())
        key = self._access.token is not None
        return {
            "charLimit": self._limits.max_characters,
            "frontendTimeout": 500,
            "apiKeys": key,
            "keyRequired": key,
            "suggestions": False,
            "filesTranslation": False,
            "supportedFilesFormat": [],
            "language": {"source": source, "target": target},
        }

    def check(self, fields: Mapping[str, Any], *needed: str) -> None:
        """Refuse a request with a wrong key, or without a needed field, by an HTTPException."""
        if not self._access.has_token(str(fields.get("api_key", ""))):
            raise HTTPException(403, "Invalid API key")
        for name in needed:
            if not fields.get(name):
                raise HTTPException(400, f"Invalid request: missing {name} parameter")

    def detect(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.check(fields, "q")
        texts = fields["q"] if isinstance(fields["q"], list) else [fields["q"]]
        return [each.model_dump() for each in self._detected(" ".join(map(str, texts)))]

    def _detected(self, text: str) -> list[Detected]:
        """Return the model's two languages, the likelier one first."""
        with LOADING:
            known = identifier(self._source, self._target)
        ranked = known.rank(text)
        return [Detected(confidence=round(100 * float(share), 1), language=code) for code, share in ranked]

    def job(self, fields: Mapping[str, Any]) -> Job:
        """Return the job of a request to translate."""
        self.check(fields, "q", "source", "target")
        asked = LibreTranslateRequest.model_validate(fields)
        for language, others in (asked.source, {AUTO}), (asked.target, set()):
            if language not in {self._source, self._target, *others}:
                raise HTTPException(400, f"{language:.40} is not supported")
        if asked.alternatives >= self._limits.max_beam:
            raise UserError(f"alternatives is {asked.alternatives}: give at most {self._limits.max_beam - 1}")
        texts = asked.q if isinstance(asked.q, list) else [asked.q]
        detected = [self._detected(text)[0] for text in texts] if asked.source == AUTO else None
        sources = [each.language for each in detected] if detected else len(texts) * [asked.source]
        documents = [self._document(text, source, asked) for text, source in zip(texts, sources, strict=True)]
        more: dict[str, Any] = {"prefix": asked.prefix, "glossary": asked.glossary, "avoid": asked.avoid}
        options = Options(n_best=1 + asked.alternatives, too_long="split", **more)

        def answer(found: list[list[list[Translation]]]) -> bytes:
            ranked = [
                [document.joined([each[rank] for each in sentences]) for rank in range(options.n_best)]
                for document, sentences in zip(documents, found, strict=True)
            ]
            others = [rest for _, *rest in ranked] if asked.alternatives else None
            whole: dict[str, Any] = {
                "translatedText": [best for best, *_ in ranked],
                "alternatives": others,
                "detectedLanguage": detected,
            }
            if isinstance(asked.q, str):
                whole = {name: values and values[0] for name, values in whole.items()}
            return Translated(**whole).model_dump_json(exclude_none=True).encode()

        return job_of(documents, options, answer)

    def _document(self, text: str, source: str, asked: LibreTranslateRequest) -> Parts:
        if source == asked.target:
            same = Parts()
            same.parts.append(text)  # needs no translation
            return same
        if (source, asked.target) != (self._source, self._target):
            raise HTTPException(400, f"{asked.target} is not available as a target language from {source}")
        return document_of(text, asked.format or ("html" if END_TAG.search(text) else "text"), source)


@functools.cache
def identifier(*languages: str) -> Any:
    """Return py3langid's model that tells these languages apart, by sequences of bytes."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]
    except ImportError as error:
        raise UserError("telling languages apart needs py3langid: pip install py3langid") from error
    found = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    try:
        found.set_languages(list(languages))
    except ValueError as error:
        raise UserError(f"{' and '.join(languages)}: the languages cannot be told apart here") from error
    return found
