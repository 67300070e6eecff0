# What is there before something happens, for each section of docs/runbook.md: settings, a service with
# commits in it, a backup of the first of them. $STAGE is an empty directory, $HOST an address of the
# loopback of its own, $STAGE/certificates has two of them, for $HOST.
set -e
export PATH="$STAGE/bin:$PATH"
export SETTINGS=$STAGE/etc/carebook.toml ETC=$STAGE/etc DATA=$STAGE/data OTHER=$STAGE/other
export BACKUPS=$STAGE/backups ARCHIVE=$STAGE/archive SECRETS=$STAGE/secrets
export URL=http://$HOST:8080 INSIDE=http://$HOST:8081 AS=
mkdir -p "$ETC" "$BACKUPS" "$SECRETS" "$OTHER"
carebook token keygen --out "$STAGE/keys" >/dev/null
cp "$STAGE/keys/jwks.json" "$ETC"
cat >"$SETTINGS" <<TOML
data = "$DATA"
listen = "$HOST:8080"
internal-listen = "$HOST:8081"
jwks = "$ETC/jwks.json"
archive = "$ARCHIVE"
backup-status = "$BACKUPS/status.json"
receiver = ["*=http://127.0.0.1:9/"]
receiver-secret = ["*=$ETC/receiver.secret"]
receivers-hurry = 1000000
reserve-bytes = 1
TOML
receiver_secret() { printf 'whsec_%s\n' "$(head -c 32 /dev/urandom | base64)"; }
receiver_secret >"$ETC/receiver.secret"
signed() { carebook token --key "$STAGE/$1/key.pem" --sub "$2" --actor-kind "$3" $4; }
export TOKEN=$(signed keys hq-1 headquarters_administrator '--permission webhooks:manage --permission outbox:manage')
workflow=$(signed keys workflow-1 system_workflow '--permission facts:write')
mother=$(signed keys mother-1 mother '--member-id member-mother-1')
# Sends what it is given to a path, and keeps the answer in a file, which is printed when it is a refusal.
post() {
    answer=$STAGE/$1 path=$2 token=$3
    shift 3
    curl -sS --fail-with-body -o "$answer" "$URL/$path" -H "Authorization: Bearer $token" \
        -H 'Content-Type: application/json' "$@" || { echo "$path: $(cat "$answer")" && return 1; }
}
statement() {
    post statement settlement-deposit-requests "$TOKEN" -d '{"statementCode": "'"$1"'",
        "statementKind": "head_office_to_branch", "branchProfileId": "branch-1",
        "settlementPeriodStart": "2026-10-01", "settlementPeriodEnd": "2026-10-31",
        "remittanceAccountSnapshot": {"remittanceAccountSnapshotId": "r-1", "bankName": "Bank",
        "accountHolder": "Holder", "accountNumberDisplay": "110", "capturedAt": "2026-11-01T00:00:00Z",
        "sourceReferenceKey": null}, "actorKind": "headquarters_administrator",
        "actorProfileId": "hq-1", "idempotencyKey": "'"key-$1"'", "messageToBranch": null,
        "headOfficePrivateMemo": null}'
}

systemctl start carebook
carebook facts template >"$STAGE/facts.ndjson"
carebook facts load "$STAGE/facts.ndjson" --url "$URL" --token "$workflow" >"$STAGE/loaded" || { cat "$STAGE/loaded"; exit 1; }
post subscription webhook-subscriptions "$TOKEN" -H 'Idempotency-Key: subscribe-1' \
    -d '{"url": "https://receiver.invalid/", "types": ["carebook.payout.*"], "description": null}'
export SUBSCRIPTION=$(sed 's/.*"subscriptionId":"\([^"]*\)".*/\1/' "$STAGE/subscription")
# A message to another system, which nobody takes.
post delegation family-payment-delegations "$mother" -H 'Idempotency-Key: grant-1' \
    -d '{"familyAccountId": "family-account-1", "payerMemberId": "member-family-1",
    "motherMemberId": "member-mother-1", "reservationBookingId": "reservation-booking-1",
    "scopes": ["reservation_deposit"], "maximumAuthorizedAmountKrw": 500000,
    "expiresAt": "2099-01-01T00:00:00Z"}'
statement S-1
statement S-2
cp -p "$DATA/webhook.key" "$SECRETS"
until carebook outbox list --state dead --url "$URL" --token "$TOKEN" | grep -q authorization; do sleep 0.05; done
# A disk that hangs for seconds fails it.
until carebook backup --data "$DATA" --to "$BACKUPS/first" >/dev/null; do rm -rf "$BACKUPS/first"; done
ln -sfn first "$BACKUPS/nightly"
export POSITION=$(carebook verify --data "$BACKUPS/nightly" --json | sed -n 's/.*"lastPosition": \([0-9]*\).*/\1/p')
statement S-3
statement S-4
statement S-5

# What happens meanwhile, by the name that the runbook's source gives it.
the_disk_is_full() {
    sed -i 's/^reserve-bytes = .*/reserve-bytes = 9000000000000000/' "$SETTINGS"
    systemctl restart carebook
}
the_other_disk_has_room() { sed -i 's/^reserve-bytes = .*/reserve-bytes = 1/' "$SETTINGS"; }
# Changes the byte of a file at an offset.
flip() {
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf "\\$(printf %03o $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
a_byte_of_the_log_changes() {
    systemctl stop carebook
    # In the batch that has the record of S-3, behind its header.
    batch=$(carebook inspect records --data "$DATA" --json | grep '"key":"key-S-3"' |
        sed 's/.*"offset":\([0-9]*\),"records":[0-9]*,"segment":\([0-9]*\).*/\1 \2/')
    file=$(printf '%s/segment-%016d.log' "$DATA" "${batch#* }")
    flip "$file" $((${batch% *} + 200))
}
a_byte_of_a_snapshot_changes() {
    systemctl kill --signal=USR1 carebook
    until [ -e "$DATA/snapshot-0000000000000001.snap" ]; do sleep 0.02; done
    systemctl stop carebook
    flip "$DATA/snapshot-0000000000000001.snap" 500
}
the_node_is_lost() {
    systemctl stop carebook
    rm -r "$DATA"
}
tls_is_on() {
    mkdir "$STAGE/fresh"
    cp "$STAGE/certificates/1.pem" "$ETC/cert.pem"
    cp "$STAGE/certificates/1.key" "$ETC/key.pem"
    cp "$STAGE/certificates/2.pem" "$STAGE/fresh/cert.pem"
    cp "$STAGE/certificates/2.key" "$STAGE/fresh/key.pem"
    cat "$STAGE"/certificates/?.pem >"$STAGE/trusted.pem"
    printf 'tls-cert = "%s"\ntls-key = "%s"\n' "$ETC/cert.pem" "$ETC/key.pem" >>"$SETTINGS"
    export FRESH=$STAGE/fresh URL=https://$HOST:8080 CURL_CA_BUNDLE=$STAGE/trusted.pem
    systemctl restart carebook
}
the_provider_has_other_keys() {
    carebook token keygen --out "$STAGE/fresh" >/dev/null
    export FRESH=$STAGE/fresh
    export NEW_TOKEN=$(signed fresh hq-1 headquarters_administrator '--permission webhooks:manage')
}
a_newer_one_is_there() {
    mkdir "$STAGE/new"
    cp -P "$STAGE/bin/carebook" "$STAGE/new"
    export NEW=$STAGE/new/carebook PROGRAM=$STAGE/bin/carebook
}
# The test does that, and says when it is done.
a_newer_one_has_written() {
    systemctl stop carebook
    echo >"$STAGE/newer.wanted"
    cat "$STAGE/newer.done"
}
