"""Capabilities of map services: XML that names layers, levels and terms of use."""

from collections.abc import Collection, Iterator
from urllib.parse import parse_qsl, quote
from xml.etree import ElementTree as ET

from roadseg.commands.services.images.fetching import Credit, joined_texts
from roadseg.errors import ConfigError
from roadseg.system.text import first
from roadseg.system.web.answers import Answer, BadAnswerError, split_address

_LINK = "{http://www.w3.org/1999/xlink}href"
_NO_TERMS = {"none", "no conditions apply", "keine"}
_LISTED = 40  # Names of layers that an error lists.

Element = ET.Element


def read_xml(answer: Answer) -> Element:
    """Return the root of XML, with names without their namespaces.

    Raises:
        BadAnswerError: if the answer is no XML.
    """
    # A text that declares entities could become very large; no service needs them.
    if b"<!ENTITY" in answer.body:
        raise BadAnswerError("found XML that declares entities, expected capabilities")
    try:
        root = ET.fromstring(answer.body)  # noqa: S314 - without entities
    except (ET.ParseError, LookupError) as error:  # Or an unknown encoding.
        raise BadAnswerError(f"found {answer.what}, expected capabilities in XML") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if "exception" in root.tag.lower():
        raise BadAnswerError(f"the service refuses: {answer.what}")
    return root


def text_of(element: Element, path: str) -> str:
    """Return the text at a path below an element; empty if there is none."""
    return (element.findtext(path) or "").strip()


def link_of(element: Element | None) -> str:
    """Return the address in an element of XLink; empty if there is none."""
    return "" if element is None else element.get(_LINK, "").strip()


def terms_of(service: Element | None, *attributions: str) -> Credit:
    """Return the terms in the part of capabilities that describes the service."""
    if service is None:
        return Credit(joined_texts(attributions))
    terms = [text_of(service, "AccessConstraints"), text_of(service, "Fees")]
    return Credit(
        joined_texts(attributions),
        joined_texts([each for each in terms if each.lower() not in _NO_TERMS]),
    )


def choose_layer(layers: dict[str, str], wanted: str | None, *, kind: str) -> str:
    """Return the name of a layer; if none is wanted, the only one.

    Raises:
        ConfigError: if there is no such layer, or a choice of several; the error lists them.
    """
    if wanted is None and len(layers) == 1:
        return next(iter(layers))
    if wanted in layers:
        return wanted
    listed = first(
        [f"{name} ({title})" if title else name for name, title in layers.items()], _LISTED
    )
    asked = "name one with --layer" if wanted is None else f"there is no layer {wanted!r}"
    raise ConfigError(f"the {kind} has {len(layers)} layers, {asked}: {listed or 'none'}")


def query_of(address: str) -> dict[str, str]:
    """Return the parameters of an address, with names in lower case and places for keys."""
    return {name.lower(): value for name, value in parse_qsl(split_address(address).query)}


def own_query(address: str, other: str, asked: Collection[str]) -> dict[str, str]:
    """Return the parameters of an address that another one of its host needs too, such as a key.

    Args:
        other: address that the service names.
        asked: names of parameters that say what was asked for.
    """
    if split_address(address).hostname != split_address(other).hostname:
        return {}
    return {name: value for name, value in query_of(address).items() if name not in asked}


def with_query(address: str, parameters: dict[str, str], *, leave_out: tuple[str, ...] = ()) -> str:
    """Return an address with parameters, and those that it has itself under other names.

    Places for keys stay as they are.
    """
    parts = split_address(address)
    own = parse_qsl(parts.query, keep_blank_values=True)
    names = {name.lower() for name in parameters} | set(leave_out)
    kept = [(name, value) for name, value in own if name.lower() not in names]
    pairs = [*kept, *parameters.items()]
    query = "&".join(f"{quote(name)}={quote(value, safe=',:/{}')}" for name, value in pairs)
    return parts._replace(query=query, fragment="").geturl()


def capabilities_address(address: str, service: str) -> str:
    """Return where the capabilities of a service are: an XML file, or the answer to a question."""
    query = query_of(address)
    if split_address(address).path.lower().endswith(".xml") or query.get("request"):
        return address
    return with_query(address, {"service": service, "request": "GetCapabilities"})


def inherited(layer: Element, parents: dict[Element, Element], tag: str) -> Iterator[Element]:
    """Yield the elements of a name in a layer and in those around it."""
    around: Element | None = layer
    while around is not None:
        yield from around.findall(tag)
        around = parents.get(around)
