"""What schemathesis takes for a fault and is none: requests that fit the document and are refused all the same.

A schema says what each member may be, and the document says in words what it does not: what holds between members,
what the present has to do with it, and what an earlier answer gave. Each such refusal stands here, by its operation,
member and code, with its reason; any other is found.
"""

import datetime
import re

ANY = ".*"
INDEX = re.compile(r"\[\d+\]")

# Operation, member, code, reason.
IN_WORDS = [
    (ANY, r"query\.cursor", "pattern", "a cursor is good where a page before gave it, and nowhere else"),
    (ANY, r"query\.at", "not_allowed", "`at` or `revision`, not both"),
    (
        "administer_gateway",
        "paymentId|reservationBookingId|searchKey|amountKrw",
        "required",
        "the action says what it needs",
    ),
    ("capture_adjustment_payment", r"providerContext\..*", "out_of_range", "a number that no log could hold"),
    ("finalize_charge", "ownPriceKrw", "out_of_range", "no part is more than the whole"),
    (
        "acknowledge_deposit",
        r"lineAcknowledgements\[\]\.(lineAcknowledgementId|settlementLineKey)",
        "not_unique",
        "a line stands once",
    ),
    (
        "acknowledge_deposit",
        r"lineAcknowledgements\[\]\.acknowledgedByActorProfileId",
        "not_allowed",
        "who acknowledges a line is who sends it",
    ),
    (
        "acknowledge_deposit",
        r"interOfficeAcknowledgement(\.\w+)?",
        "not_allowed|required",
        "it is for statements of one kind, and has to fit its lines and who sends it",
    ),
    ("read_events", r"query\.after", "pattern|out_of_range", "an identifier that no event has had"),
    ("retry_webhook_delivery", "eventId", "pattern", "an identifier that no event can have had"),
]


def value_at(body, path):
    """What stands at the place, as a fault names it; `None` where nothing does."""
    for part in re.findall(r"[^.\[\]]+", path):
        try:
            body = body[int(part)] if isinstance(body, list) else body[part]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return body


def is_whole_with_point(value):
    """Whether it is a number such as `1.0`, which to JSON Schema is an integer."""
    return isinstance(value, float) and value.is_integer()


def has_whole_with_point(value):
    """Whether such a number stands in it."""
    if isinstance(value, dict):
        return any(map(has_whole_with_point, value.values()))
    if isinstance(value, list):
        return any(map(has_whole_with_point, value))
    return is_whole_with_point(value)


def is_time(value):
    """Whether it is a time or a day: where it may lie, a schema does not say. What a number may be, it does."""
    return isinstance(value, str) and re.match(r"\d{4}-\d{2}-\d{2}", value) is not None


def is_told(case, fault):
    """Whether the fault is of what the document says in words alone."""
    path, code = fault["fieldPath"], fault["code"]
    name = case.operation.definition.raw["operationId"]
    value = value_at(case.body, path)
    if code == "wrong_type" and is_whole_with_point(value):
        return True
    if code == "wrong_type" and name == "finalize_charge" and path.startswith("amountByComponentCode."):
        # The names of this map may have dots.
        return has_whole_with_point(case.body["amountByComponentCode"])
    if code == "out_of_range" and is_time(value):
        return True
    plain = INDEX.sub("[]", path)
    return any(
        re.fullmatch(operation, name) and re.fullmatch(member, plain, re.DOTALL) and re.fullmatch(known, code)
        for operation, member, known, _ in IN_WORDS
    )


def head_of(request):
    """How many bytes the head of a request has."""
    lines = [request.method, request.url, *map(": ".join, request.headers.items())]
    return sum(len(line.encode()) + 2 for line in lines)


def is_known(case, failure, answer):
    """Whether what was found is none."""
    is_long = head_of(answer.request) > 16 * 1024
    if answer.status_code == 431 and is_long and answer.json()["code"] == "request_invalid":
        # A query of that length is refused before anybody looks for its operation: the document's description says so.
        return True
    kind = type(failure).__name__
    if answer.status_code == 503 and kind in ("ServerError", "AcceptedNegativeData", "RejectedPositiveData"):
        # A position that nothing has reached: the one 503 of a service that is well.
        return answer.json().get("code") == "position_not_reached"
    if kind != "RejectedPositiveData":
        return False
    problem = answer.json()
    if problem["code"] != "request_invalid":
        # What stands is against it, and the code says what: the document has it by name.
        return True
    if "fieldErrors" in problem:
        return all(is_told(case, fault) for fault in problem["fieldErrors"])
    # A problem that tells no faults.
    query = case.query or {}
    if "cursor" in query or {"at", "revision"} <= set(query) or has_whole_with_point(case.body):
        return True
    day = value_at(case.body, "birthDate")
    return is_time(day) and not "1900-01-01" <= day <= datetime.date.today().isoformat()
