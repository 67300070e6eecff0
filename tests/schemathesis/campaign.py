"""Calls a running service as its document says, and as it says not, with schemathesis and all of its checks.

    campaign.py URL DOCUMENT CALLS SEED

DOCUMENT is a file, and URL where the service is. `TOKENS` in the environment is an object in JSON: a name, and the
token that is sent under it. Each case that is generated is sent with each of them, so that every kind of actor meets
the same. About CALLS calls are made. What was found is printed in JSON, one object on each line, the first of its kind
alone; the last line has the counts. The exit code is 1 where anything was found.
"""

import json
import os
import random
import sys
import time

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode

from known import INDEX, is_known

URL, DOCUMENT, CALLS, SEED = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
TOKENS = json.loads(os.environ["TOKENS"])
# Cases of one operation before the next has its turn: so many that each has its turn at least once.
TURN = max(2, min(60, CALLS // 2_000))


class Counted(requests.Session):
    """Counts what is sent, and what is answered."""

    calls = 0
    statuses = {}

    def send(self, request, **how):
        answer = super().send(request, **how)
        Counted.calls += 1
        Counted.statuses[answer.status_code] = Counted.statuses.get(answer.status_code, 0) + 1
        return answer


# Checks that send requests of their own do so with a session of their own.
requests.Session = requests.sessions.Session = Counted
chance = random.Random(SEED)
# What answers held under each name: identifiers, that a later case asks for.
pool: dict[str, list] = {}


def remember(value):
    if isinstance(value, dict):
        for name, of in value.items():
            if isinstance(of, (str, int)) and not isinstance(of, bool):
                known = pool.setdefault(name, [])
                if of not in known:
                    known.append(of)
                    del known[:-40]
            else:
                remember(of)
    elif isinstance(value, list):
        for of in value[:20]:
            remember(of)


def with_known(value):
    """The object with some of its members as an answer had them, where they are of one type."""
    if isinstance(value, list):
        return [with_known(of) for of in value]
    if not isinstance(value, dict):
        return value
    new = {}
    for name, of in value.items():
        known = [one for one in pool.get(name, ()) if type(one) is type(of)]
        new[name] = chance.choice(known) if known and chance.random() < 0.5 else with_known(of)
    return new


# The header of a position that is waited for, for seconds.
WAITED = "Carebook-Min-Position"


def seldom_wait(case):
    """Most cases that name a position name one that there is."""
    named = str((case.headers or {}).get(WAITED, ""))
    if named.isdecimal() and int(named) > 1 and chance.random() < 0.995:
        case.headers[WAITED] = str(chance.randint(0, 1))


found: dict[tuple, int] = {}
cases = 0


def tell(name, case, failure, answer):
    title = type(failure).__name__
    try:
        problem = answer.json()
        faults = tuple((INDEX.sub("[]", of["fieldPath"]), of["code"]) for of in problem.get("fieldErrors", ()))
        code = problem.get("code")
    except (ValueError, AttributeError):
        faults, code = (), None
    key = (case.operation.label, title, answer.status_code, code, faults)
    found[key] = found.get(key, 0) + 1
    if found[key] == 1:
        print(
            json.dumps(
                {
                    "operation": case.operation.label,
                    "failure": title,
                    "says": str(failure)[:600],
                    "as": name,
                    "status": answer.status_code,
                    "answer": answer.text[:1000],
                    "faults": faults,
                    "path": dict(case.path_parameters or {}),
                    "query": dict(case.query or {}),
                    "headers": dict(case.headers or {}),
                    "body": repr(case.body)[:3000],
                },
                default=repr,
            ),
            flush=True,
        )


def sent_by_each(session):
    def run(case):
        global cases
        cases += 1
        seldom_wait(case)
        if case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE:
            if case.path_parameters:
                for name in case.path_parameters:
                    known = [one for one in pool.get(name, ()) if isinstance(one, str) and one]
                    if known and chance.random() < 0.7:
                        case.path_parameters[name] = chance.choice(known)
            if isinstance(case.body, (dict, list)):
                case.body = with_known(case.body)
            if isinstance(case.body, dict) and isinstance(case.body.get("url"), str):
                # A subscription is never to a host that somebody has (RFC 2606).
                case.body["url"] = f"https://receiver.invalid/{cases}"
        names = list(TOKENS)
        chance.shuffle(names)
        for name in names:
            headers = {"Authorization": f"Bearer {TOKENS[name]}"}
            try:
                answer = case.call(session=session, headers=headers)
            except requests.RequestException as error:
                found[case.operation.label, str(error)] = 1
                print(json.dumps({"operation": case.operation.label, "failure": repr(error), "body": repr(case.body)}))
                continue
            try:
                case.validate_response(answer, headers=headers, transport_kwargs={"session": session})
            except FailureGroup as group:
                for failure in group.exceptions:
                    if not is_known(case, failure, answer):
                        tell(name, case, failure, answer)
            if answer.status_code < 300:
                try:
                    remember(answer.json())
                except ValueError:
                    pass

    return run


def main():
    schema = schemathesis.openapi.from_path(DOCUMENT)
    schema.config.update(base_url=URL)
    # Who sends a case is said here, and a check sends it without a token, too.
    schema.config.generation.update(with_security_parameters=False)
    operations = [result.ok() for result in schema.get_all_operations()]
    strategies = []
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            strategies.append((operation, operation.as_strategy(generation_mode=mode)))
    chance.shuffle(strategies)
    session = Counted()
    run = sent_by_each(session)
    began = time.monotonic()
    told = began
    turn = 0
    while Counted.calls < CALLS:
        turn += 1
        for number, (operation, strategy) in enumerate(strategies):
            test = hypothesis.given(case=strategy)(run)
            test = hypothesis.settings(
                max_examples=TURN,
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )(test)
            try:
                hypothesis.seed(SEED * 1_000_000 + turn * 1_000 + number)(test)()
            except hypothesis.errors.Unsatisfiable:
                # A request without parameters and a body cannot be wrong.
                pass
            if time.monotonic() - told > 30:
                told = time.monotonic()
                print(f"{Counted.calls} calls in {told - began:.0f} s", file=sys.stderr, flush=True)
            if Counted.calls >= CALLS:
                break
    counts = {
        "seed": SEED,
        "calls": Counted.calls,
        "cases": cases,
        "seconds": round(time.monotonic() - began),
        "statuses": {str(status): count for status, count in sorted(Counted.statuses.items())},
        "found": sum(found.values()),
    }
    print(json.dumps(counts), flush=True)
    sys.exit(1 if found else 0)


main()
