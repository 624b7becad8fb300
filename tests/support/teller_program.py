"""A teller of a bank, in a process of its own: moves money between accounts, in transactions.

    python -m tests.support.teller_program ADDRESS OPTIONS

OPTIONS are a JSON object; see ``TellerOptions`` in bank.py.  What an account has is the last
record of its key; it may be less than nothing.  The accounts are the teller's own: whoever comes
after it under the same transactional id reads what they have, once what it left open is ended.
"""

import json
import sys
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.support.bank import balances_in, read_bank
from tests.support.group_member_program import orders, tell
from tests.support.persistent_load import transactional_producer

TIMEOUT_S = 30


def run(address: str, options: SimpleNamespace) -> None:
    producer = transactional_producer(address, options.name, timeout_ms=options.timeout_ms)
    producer.init_transactions(TIMEOUT_S)
    bank = read_bank(address, options.topic, options.partitions)
    balances = dict.fromkeys(options.accounts, 0)
    balances |= {account: has for account, has in balances_in(bank).items() if account in balances}
    tell("ready")
    random, received = Random(), orders()
    while received.empty():
        move(producer, balances, random, options)


def move(producer: Any, balances: dict[str, int], random: Random, options: SimpleNamespace) -> None:
    """Some money from one account to another, or back again."""
    giver, taker = random.sample(sorted(balances), 2)
    amount = random.randint(1, 100)
    transfer = f"{options.name} {random.getrandbits(64):x}"
    is_doomed = random.random() < options.abort_share
    after = {giver: balances[giver] - amount, taker: balances[taker] + amount}
    entries = {
        account: json.dumps(
            {"account": account, "has": has, "transfer": transfer, "is_doomed": is_doomed}
        )
        for account, has in after.items()
    }
    places = {account: int(account) % options.partitions for account in after}
    sent = [[places[account], entry] for account, entry in entries.items()]
    # Before anything is: who gives up may have sent it.
    tell("began", transfer=transfer, sent=sent)
    producer.begin_transaction()
    for account, entry in entries.items():
        producer.produce(options.topic, entry, account, partition=places[account])
        # Each is there alone for a moment.
        producer.flush(TIMEOUT_S)
    if is_doomed:
        producer.abort_transaction(TIMEOUT_S)
    else:
        producer.commit_transaction(TIMEOUT_S)
        balances |= after
    tell("aborted" if is_doomed else "moved", transfer=transfer)


if __name__ == "__main__":
    address, told = sys.argv[1:]
    run(address, SimpleNamespace(**json.loads(told)))
    tell("closed")
