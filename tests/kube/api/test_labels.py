"""Label selectors: what they select, how they are written, what is refused."""

import pytest

from kube.api.labels import (
    NOTHING,
    SelectorError,
    match_labels,
    parse_int64,
    parse_selector,
    requirements_of,
    selector_from_map,
    selector_of,
)
from tests.builders import DoesNotExist, Exists, In, NotIn, label, selector

WEB = {"app": "web", "tier": "front", "version": "7", "empty": ""}


@pytest.mark.parametrize(
    ("text", "selects"),
    [
        pytest.param("", True, id="empty text selects everything"),
        pytest.param("app=web", True, id="="),
        pytest.param("app==web", True, id="=="),
        pytest.param("app=db", False, id="another value"),
        pytest.param("app!=db", True, id="!="),
        pytest.param("missing!=db", True, id="!= holds where the label is absent"),
        pytest.param("app", True, id="exists"),
        pytest.param("missing", False, id="exists fails where absent"),
        pytest.param("!missing", True, id="does not exist"),
        pytest.param("! app", False, id="does not exist fails where present"),
        pytest.param("app in (db, web)", True, id="in"),
        pytest.param("app notin (db,web)", False, id="notin"),
        pytest.param("missing notin (db)", True, id="notin holds where the label is absent"),
        pytest.param("empty=", True, id="the empty value"),
        pytest.param("app=", False, id="the empty value is not any value"),
        pytest.param("empty in ()", True, id="empty parentheses are the empty value"),
        pytest.param("empty in (,x)", True, id="an empty place in the list is the empty value"),
        pytest.param("empty in (x,)", True, id="also at the end"),
        pytest.param("version>6", True, id="greater"),
        pytest.param("version<7", False, id="less is strict"),
        pytest.param("app>1", False, id="a word is not greater than anything"),
        pytest.param("app=web,tier in (front,back),!missing", True, id="all must hold"),
        pytest.param("app=web,tier=back", False, id="one that fails is enough"),
        pytest.param("  app = web , tier = front ", True, id="white space is free"),
    ],
)
def test_text_selects(text, selects):
    assert parse_selector(text)(WEB) is selects


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        pytest.param({"in": "x"}, "in in (x)", id="as a key"),
        pytest.param({"a": "in"}, "a=in", id="as a value"),
        pytest.param({"a": "notin"}, "a in (notin)", id="in a list"),
    ],
)
def test_keywords_are_also_words(labels, text):
    assert parse_selector(text)(labels)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("a,", "expected a label key after ','", id="a comma at the end"),
        pytest.param(",a", "found ',', expected a label key", id="a comma at the start"),
        pytest.param("a b", "found 'b', expected '='", id="two words"),
        pytest.param("a in x", "found 'x', expected '('", id="in without parentheses"),
        pytest.param("a in (x", "it ends early, expected ')'", id="an open list"),
        pytest.param("!a=b", "found '=', expected ','", id="a negation with a value"),
        pytest.param("a=b=c", "found '=', expected ','", id="two comparisons"),
        pytest.param("a>b", "needs exactly one integer", id="greater than a word"),
        pytest.param("-a=b", "'-a' is not a valid label key", id="a bad key"),
        pytest.param("a/b/c=d", "'a/b/c' is not a valid label key", id="two slashes"),
        pytest.param("a=b_", "'b_' is not a valid label value", id="a bad value"),
        pytest.param("a=" + 64 * "x", "is not a valid label value", id="a value of 64 characters"),
    ],
)
def test_bad_text_is_refused_with_a_reason(text, complaint):
    with pytest.raises(SelectorError) as error:
        parse_selector(text)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("api_selector", "selects"),
    [
        pytest.param(None, False, id="nil selects nothing"),
        pytest.param(selector(), True, id="an empty selector selects everything"),
        pytest.param(selector({"app": "web"}), True, id="matchLabels"),
        pytest.param(selector({"app": "web", "tier": "back"}), False, id="all of matchLabels"),
        pytest.param(selector({}, label("app", In, "web", "db")), True, id="In"),
        pytest.param(selector({}, label("app", NotIn, "web")), False, id="NotIn"),
        pytest.param(selector({}, label("missing", NotIn, "web")), True, id="NotIn where absent"),
        pytest.param(selector({}, label("app", Exists)), True, id="Exists"),
        pytest.param(selector({}, label("app", DoesNotExist)), False, id="DoesNotExist"),
        pytest.param(selector({"app": "web"}, label("tier", In, "back")), False, id="matchLabels and expressions"),
    ],
)
def test_an_api_selector_selects(api_selector, selects):
    assert match_labels(api_selector, WEB) is selects


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        pytest.param(label("a", In), "operator In of key 'a' needs at least one value", id="In without values"),
        pytest.param(
            label("a", Exists, "x"), "operator Exists of key 'a' takes no values, got x", id="Exists with one"
        ),
        pytest.param(label("a", "Gt", "1"), "'Gt' is not a valid label selector operator for key 'a'", id="Gt"),
        pytest.param(label("", Exists), "'' is not a valid label key", id="no key"),
    ],
)
def test_a_bad_api_selector_is_refused(expression, complaint):
    with pytest.raises(SelectorError, match=complaint):
        selector_of(selector({}, expression))


def test_equal_selectors_are_one_value_however_they_were_written():
    spellings = [
        selector({"a": "1", "b": "2"}),
        selector({"b": "2", "a": "1"}),
        selector({"a": "1"}, label("b", In, "2", "2")),
    ]
    assert len({requirements_of(each) for each in spellings}) == 1
    assert selector_of(spellings[0]) is selector_of(spellings[2]) is parse_selector("b=2,a in (1)")
    assert requirements_of(selector({}, label("k", In, "z", "a"))) == (("k", In, ("a", "z")),)


def test_nil_empty_and_service_selectors_differ():
    assert selector_of(None) == NOTHING != selector_of(selector())
    assert selector_of(selector()).is_empty
    assert selector_from_map({"app": "web"})(WEB)
    assert selector_from_map({})(WEB)


def test_a_selector_is_printed_as_it_could_be_typed():
    text = "a=1,b in (x,y),c!=z,d,!gone,n>5"
    assert str(parse_selector(text)) == text
    assert str(NOTHING) == "<nothing>"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("", None),
        ("7.0", None),
        (" 7", None),
        ("1_0", None),
        ("0x7", None),
        ("٧", None),
    ],
)
def test_integers_are_gos_integers(text, number):
    assert parse_int64(text) == number
