"""The walk through all operations (docs/walkthrough.md) against a fresh demonstration, by the package that
openapi-python-client made from the API document. Every request is made of its types, and every answer has to be one of
them: a member, a path or an operation that the document does not have is an error here.

The environment has the exports that the demonstration prints. Method and path of each request that succeeded are
printed, once. What was answered otherwise than it should be is told, and the exit code is 1.
"""

import os
from datetime import date, datetime

from carebook_client import AuthenticatedClient, Client, models
from carebook_client.api.events import read_events
from carebook_client.api.facts import put_reference_facts
from carebook_client.api.lists import list_statements
from carebook_client.api.operations import (
    accept_manager_invitation,
    acknowledge_deposit,
    acknowledge_payout_deposit,
    administer_gateway,
    assign_caregiver,
    authorize_payment,
    capture_adjustment_payment,
    confirm_reservation_draft,
    create_branch,
    decide_cash_receipt_eligibility,
    finalize_charge,
    grant_care_history_access,
    grant_payment_authority,
    mark_artifact_ready,
    open_data_room_request,
    pre_register_payment,
    repair_payout_receipt,
    request_deposit,
    snapshot_settlement_account,
    update_branch_office_profile,
    update_mother_profile,
)
from carebook_client.api.reads import read_branch, read_fact, read_payment_delegation, read_payout_receipt_state, read_statement

ADDRESS = os.environ["CAREBOOK"]

succeeded = set()


def note(response):
    """Notes a request that succeeds."""
    if response.is_success:
        succeeded.add(f"{response.request.method} {response.request.url.path}")


NOTING = {"event_hooks": {"response": [note]}}


def of(kind):
    return AuthenticatedClient(
        base_url=ADDRESS, token=os.environ[kind], raise_on_unexpected_status=True, httpx_args=NOTING
    )


mother = of("MOTHER")
family = of("FAMILY_MEMBER")
manager = of("BRANCH_MANAGER")
headquarters = of("HEADQUARTERS_ADMINISTRATOR")
workflow = of("SYSTEM_WORKFLOW")
nobody = Client(base_url=ADDRESS, raise_on_unexpected_status=True, httpx_args=NOTING)


def same(found, expected):
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r}")


def answered(status, type_, answer):
    """The body of an answer of this status, which is of this type."""
    if answer.status_code != status or type(answer.parsed) is not type_:
        raise AssertionError(f"{answer.status_code} and not {status}: {answer.content!r}")
    if not answer.headers.get("x-request-id"):
        raise AssertionError("an answer without X-Request-Id")
    return answer.parsed


# A mother and her family

profile_as_it_should_be = models.UpdateMotherProfileRequest(
    expected_profile_revision=1,
    expected_address_revision=1,
    full_name="김하늘",
    birth_date=date(1992, 3, 14),
    address=models.UpdateMotherProfileRequestAddress(
        postal_code="06236", road_address="서울특별시 강남구 테헤란로 1", detail_address="2층"
    ),
    consent_acceptances=[
        models.UpdateMotherProfileRequestConsentAcceptancesType0Item(policy_key="privacy", version_label="2025-01")
    ],
)
profile = answered(
    201,
    models.MotherProfile,
    update_mother_profile.sync_detailed(client=mother, idempotency_key="walk-7", body=profile_as_it_should_be),
)
same(profile.profile_completeness, models.ProfileCompleteness.COMPLETE)
same(profile.profile_revision, 2)
same(models.NextAction.START_RESERVATION in profile.allowed_next_actions, True)

created = answered(
    201,
    models.CustomerReservationCreation,
    confirm_reservation_draft.sync_detailed(
        "draft-1",
        client=mother,
        idempotency_key="walk-18",
        body=models.ConfirmReservationDraftRequest(
            expected_draft_revision=1,
            reservation_draft_step_authority_projection_id="review-projection-1",
            expected_review_revision=1,
        ),
    ),
)
booking = str(created.reservation_booking_id)
obligation = str(created.reservation_creation_payment_handoff.payment_obligation_id)
same(created.reservation_creation_payment_handoff.payable_amount_krw, 300_000)

delegation = answered(
    201,
    models.PaymentDelegation,
    grant_payment_authority.sync_detailed(
        client=mother,
        idempotency_key="walk-2",
        body=models.GrantPaymentAuthorityRequest(
            family_account_id="family-account-1",
            payer_member_id="member-family-1",
            mother_member_id="member-mother-1",
            reservation_booking_id=booking,
            scopes=[models.GrantPaymentAuthorityRequestScopesItem.RESERVATION_DEPOSIT],
            maximum_authorized_amount_krw=500_000,
            expires_at=datetime.fromisoformat("2099-01-01T09:00:00+09:00"),
        ),
    ),
)
same(delegation.maximum_authorized_amount_krw, 500_000)


def authorize(amount):
    return authorize_payment.sync_detailed(
        client=family,
        body=models.AuthorizePaymentRequest(
            family_account_id="family-account-1",
            mother_member_id="member-mother-1",
            reservation_booking_id=booking,
            scope=models.AuthorizePaymentRequestScope.RESERVATION_DEPOSIT,
            amount_krw=amount,
        ),
    )


authorized = answered(200, models.PaymentDelegation, authorize(300_000))
same(authorized.payment_delegation_id, delegation.payment_delegation_id)
too_much = answered(400, models.AuthorizePaymentBadRequestProblem, authorize(500_001))
same(too_much.code, models.AuthorizePaymentBadRequestProblemCode.PAYMENT_GRANT_MISSING_OR_OUT_OF_SCOPE)
same(too_much.retryable, False)

care_history = answered(
    201,
    models.CareHistoryAccessGrant,
    grant_care_history_access.sync_detailed(
        "family-account-1",
        client=mother,
        idempotency_key="walk-4",
        body=models.GrantCareHistoryAccessRequest(
            grantee_member_id="member-family-1",
            reservation_booking_id=booking,
            scopes=[models.GrantCareHistoryAccessRequestScopesItem.SUMMARY],
            expires_at=datetime.fromisoformat("2099-01-01T00:00:00+00:00"),
        ),
    ),
)
same(care_history.revision, 1)

read = answered(
    200,
    models.PaymentDelegation,
    read_payment_delegation.sync_detailed(str(delegation.payment_delegation_id), client=family),
)
same(read, delegation)

# Payments

receipt = answered(
    200,
    models.CashReceiptEligibility,
    decide_cash_receipt_eligibility.sync_detailed(
        "plan-customer-share",
        client=family,
        body=models.DecideCashReceiptEligibilityRequest(
            obligation_purpose=models.DecideCashReceiptEligibilityRequestObligationPurpose.CUSTOMER_SHARE_DEPOSIT,
            request_state=models.DecideCashReceiptEligibilityRequestRequestState.REQUESTED,
            purpose=models.DecideCashReceiptEligibilityRequestPurpose.INCOME_DEDUCTION,
            registration_identity_reference="identity-1",
        ),
    ),
)
same(receipt.decision_state, models.ReceiptDecision.ACCEPTED)

registered = answered(
    200,
    models.ReservationPaymentPreRegistration,
    pre_register_payment.sync_detailed(
        client=family,
        idempotency_key="walk-20",
        body=models.PreRegisterPaymentRequest(
            payment_id=obligation,
            cash_receipt_issue_request=models.PreRegisterPaymentRequestCashReceiptIssueRequest(
                request_state=models.PreRegisterPaymentRequestCashReceiptIssueRequestRequestState.REQUESTED,
                purpose=models.PreRegisterPaymentRequestCashReceiptIssueRequestPurpose.INCOME_DEDUCTION,
                registration_identity_reference="identity-1",
            ),
        ),
    ),
)
payer = registered.payment_actor_snapshot
same(payer.actor_kind, models.PaymentActorKind.DELEGATED_FAMILY_PAYER)
same(str(payer.payment_delegation_id), str(delegation.payment_delegation_id))
same(registered.provider_fee_snapshot.method_fee_quote.fee_amount_krw, 7_500)

context = models.CaptureAdjustmentPaymentRequestProviderContext()
context["approval"] = {"number": "A-77"}
captured = answered(
    200,
    models.PaymentChangeAdjustment,
    capture_adjustment_payment.sync_detailed(
        "reservation-booking-1",
        client=mother,
        body=models.CaptureAdjustmentPaymentRequest(
            mother_user_id="mother-1",
            payment_id="adjustment-payment-2",
            provider_name="sample-gateway",
            provider_context=context,
        ),
    ),
)
same(captured.adjustment_status, models.AdjustmentStatus.PAID)
same(captured.settlement_continuation_status, models.ContinuationStatus.QUEUED)

components = models.FinalizeChargeRequestAmountByComponentCodeType0()
components["night_care"] = 30_000
charge = answered(
    200,
    models.FinancialLifecycle,
    finalize_charge.sync_detailed(
        "reservation-booking-1",
        client=nobody,
        body=models.FinalizeChargeRequest(
            branch_profile_id="branch-seoul-1",
            finalized_charge_snapshot_id="charge-snapshot-1",
            captured_on=date(2026, 10, 10),
            service_type="postpartum_care",
            service_address_level_1="서울특별시",
            service_address_level_2="중구",
            quoted_on=date(2026, 10, 1),
            service_price_krw=1_500_000,
            own_price_krw=1_000_000,
            coupon_discount_amount_krw=50_000,
            amount_by_component_code=components,
        ),
    ),
)
same(charge.mother_visible_payable_krw, 860_000)
same(charge.caregiver_payout_krw, 1_071_000)
same(charge.hq_settlement_krw, 153_000)
same(charge.branch_settlement_krw, 306_000)

audit = answered(
    200,
    models.PaymentAdminOperation,
    administer_gateway.sync_detailed(
        client=headquarters,
        body=models.AdministerGatewayRequest(
            operation_action=models.AdministerGatewayRequestOperationAction.LOOKUP_PAYMENT,
            reason="A customer asked.",
            idempotency_key="walk-21",
            expected_revision=0,
            payment_id="payment-1",
        ),
    ),
)
same(audit.operation_status, models.OperationStatus.SUCCEEDED)

# Caregivers

assigned = answered(
    201,
    models.CareTeamAssignmentResult,
    assign_caregiver.sync_detailed(
        client=manager,
        body=models.AssignCaregiverRequest(
            assignment_decision_id="assignment-decision-1",
            roster_decision_id="roster-decision-1",
            reservation_booking_id="reservation-booking-1",
            target_assignment_key="assignment-1",
            matching_request_key="matching-request-1",
            caregiver_profile_id="caregiver-profile-1",
            role="primary_caregiver",
            handoff_order=1,
            selected_candidate_snapshot_id="candidate-snapshot-1",
            expected_candidate_snapshot_revision=1,
            expected_reservation_revision=1,
            expected_roster_revision=0,
            schedule_proof_id="schedule-proof-1",
            reason_code="first_choice",
            idempotency_key="walk-10",
        ),
    ),
)
same(assigned.assignment_decisions[0].decision_kind, models.DecisionKind.ASSIGN)
same(assigned.expected_roster_revision, 0)

payout = {
    "reservation_booking_id": "reservation-booking-1",
    "contract_assignment_key": "contract-assignment-1",
    "caregiver_payout_instruction_id": "payout-instruction-1",
    "caregiver_role": "primary_caregiver",
    "handoff_order": 1,
    "caregiver_id": "caregiver-1",
    "occurred_at": datetime.fromisoformat("2026-11-01T00:00:00+00:00"),
}
repaired = answered(
    200,
    models.CaregiverPayoutReceipt,
    repair_payout_receipt.sync_detailed(
        client=headquarters,
        body=models.RepairPayoutReceiptRequest(
            **payout, idempotency_key="walk-11", expected_revision=0, reason="The receipt was lost."
        ),
    ),
)
same(repaired.receipt_state, models.ReceiptState.REPAIRED)
same(repaired.revision, 1)

deposited = answered(
    201,
    models.PayoutDepositAcknowledgement,
    acknowledge_payout_deposit.sync_detailed(
        client=manager,
        body=models.AcknowledgePayoutDepositRequest(**payout, idempotency_key="walk-12", memo="Paid today."),
    ),
)
same(deposited.status, models.ReceiptStatus.ACKNOWLEDGED)

receipt_state = answered(
    200,
    models.CaregiverPayoutReceipt,
    read_payout_receipt_state.sync_detailed(
        "reservation-booking-1", "contract-assignment-1", "payout-instruction-1", client=manager
    ),
)
same(receipt_state.revision, 2)

# Settlement

statement = answered(
    201,
    models.SettlementStatement,
    request_deposit.sync_detailed(
        client=headquarters,
        body=models.RequestDepositRequest(
            statement_code="statement-code-1",
            statement_kind=models.RequestDepositRequestStatementKind.HEAD_OFFICE_TO_BRANCH,
            branch_profile_id="branch-seoul-1",
            settlement_period_start=date(2026, 10, 1),
            settlement_period_end=date(2026, 10, 31),
            remittance_account_snapshot=models.RequestDepositRequestRemittanceAccountSnapshot(
                remittance_account_snapshot_id="remittance-1",
                bank_name="한빛은행",
                account_holder="Carebook",
                account_number_display="110-***-000123",
                captured_at=datetime.fromisoformat("2026-11-01T09:00:00+09:00"),
                source_reference_key=None,
            ),
            actor_kind=models.RequestDepositRequestActorKind.HEADQUARTERS_ADMINISTRATOR,
            actor_profile_id="headquarters-profile-1",
            idempotency_key="walk-9",
            message_to_branch="By Friday, please.",
            head_office_private_memo="Late twice this year.",
        ),
    ),
)
same(statement.status, models.StatementStatus.AWAITING_BRANCH_DEPOSIT)
statement_id = str(statement.statement_id)

frozen = answered(
    201,
    models.SettlementAccountSnapshot,
    snapshot_settlement_account.sync_detailed(
        client=manager,
        body=models.SnapshotSettlementAccountRequest(
            snapshot_id="snapshot-1",
            settlement_statement_id=statement_id,
            branch_office_profile_id="branch-seoul-1",
            settlement_account_id="settlement-account-1",
            expected_settlement_account_revision=1,
            idempotency_key="walk-16",
        ),
    ),
)
same(str(frozen.settlement_statement_id), statement_id)

acknowledged = answered(
    200,
    models.SettlementStatement,
    acknowledge_deposit.sync_detailed(
        client=manager,
        body=models.AcknowledgeDepositRequest(
            statement_id=statement_id,
            actor_kind=models.AcknowledgeDepositRequestActorKind.BRANCH_MANAGER,
            actor_profile_id="manager-profile-1",
            idempotency_key="walk-8",
            expected_revision=1,
            reason=None,
            line_acknowledgements=[
                models.AcknowledgeDepositRequestLineAcknowledgementsItem(
                    line_acknowledgement_id="line-acknowledgement-1",
                    settlement_line_key="line-1",
                    settlement_line_kind=(
                        models.AcknowledgeDepositRequestLineAcknowledgementsItemSettlementLineKind.MEMBERSHIP_DUE
                    ),
                    acknowledged_by_actor_profile_id="manager-profile-1",
                    acknowledged_at=datetime.fromisoformat("2026-11-02T10:00:00+00:00"),
                    acknowledgement_note=None,
                )
            ],
        ),
    ),
)
same(acknowledged.status, models.StatementStatus.AWAITING_CONFIRMATION)
same(acknowledged.head_office_private_memo, None)

standing = answered(200, models.SettlementStatement, read_statement.sync_detailed(statement_id, client=headquarters))
same(standing.head_office_private_memo, "Late twice this year.")
same(len(standing.transition_audits), 2)

room = answered(
    201,
    models.SettlementDataRoomRequest,
    open_data_room_request.sync_detailed(
        client=headquarters,
        body=models.OpenDataRoomRequestRequest(
            request_code="request-code-1",
            scope=models.OpenDataRoomRequestRequestScope(
                collection="settlement_lines",
                settlement_period_start=date(2026, 10, 1),
                settlement_period_end=date(2026, 10, 31),
                branch_profile_id="branch-seoul-1",
                external_recipient_code=None,
                source_dataset_revision=1,
                source_evidence_keys=["evidence-1"],
            ),
            actor_kind=models.OpenDataRoomRequestRequestActorKind.HEADQUARTERS_ADMINISTRATOR,
            actor_profile_id="headquarters-profile-1",
            idempotency_key="walk-5",
        ),
    ),
)
same(room.status, models.DataRoomStatus.OPEN)

ready = answered(
    200,
    models.SettlementDataRoomRequest,
    mark_artifact_ready.sync_detailed(
        str(room.request_id),
        client=workflow,
        body=models.MarkArtifactReadyRequest(
            artifact=models.MarkArtifactReadyRequestArtifact(
                artifact_id="artifact-1",
                artifact_kind="ledger",
                storage_bucket="exports",
                storage_object_key="2026/10/ledger.csv",
                export_format="csv",
                file_name="ledger.csv",
                byte_size=1024,
                content_sha_256="0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                generated_at=datetime.fromisoformat("2026-11-01T00:00:00+00:00"),
                source_dataset_revision=1,
            ),
            actor_kind=models.MarkArtifactReadyRequestActorKind.SYSTEM_WORKFLOW,
            actor_profile_id="workflow-1",
            idempotency_key="walk-6",
            expected_revision=1,
        ),
    ),
)
same(ready.status, models.DataRoomStatus.READY)
same(ready.artifacts[0].file_name, "ledger.csv")

# Branches

branch = answered(
    201,
    models.Branch,
    create_branch.sync_detailed(
        client=headquarters,
        idempotency_key="walk-3",
        body=models.CreateBranchRequest(
            command_id="command-1",
            branch_code="BUSAN-1",
            expected_organization_revision=1,
            legal_name="부산산후케어 주식회사",
            display_name="부산 1지점",
            business_identity=models.CreateBranchRequestBusinessIdentity(
                jurisdiction=models.CreateBranchRequestBusinessIdentityJurisdiction.KR,
                registration_number="124-81-00998",
            ),
            contact=models.CreateBranchRequestContact(email="busan-1@example.com", phone_number="+82511234567"),
            address=models.CreateBranchRequestAddress(
                postal_code="48058", road_address="부산광역시 해운대구 센텀중앙로 79", detail_address="3층"
            ),
            manager_invitation=models.CreateBranchRequestManagerInvitation(
                email="manager-1@example.com", display_name="이바다"
            ),
            initial_lifecycle_status=models.CreateBranchRequestInitialLifecycleStatus.ACTIVE,
            initial_membership_fee_policy=models.CreateBranchRequestInitialMembershipFeePolicy(
                policy_version="2026-01",
                monthly_fee_amount=150_000,
                currency_code=models.CreateBranchRequestInitialMembershipFeePolicyCurrencyCode.KRW,
                effective_from=date(2026, 1, 1),
            ),
            reason="A branch for the south.",
        ),
    ),
)
same(branch.outcome_status, models.OutcomeStatus.COMPLETED)

joined = answered(
    201,
    models.ManagerActivation,
    accept_manager_invitation.sync_detailed(
        client=manager,
        idempotency_key="walk-14",
        body=models.AcceptManagerInvitationRequest(expected_onboarding_revision=1),
    ),
)
same(joined.branch_id, branch.branch_id)
same(joined.authorization_relationship_status, models.AuthorizationRelationshipStatus.QUEUED)

known = answered(200, models.Branch, read_branch.sync_detailed(str(branch.branch_id), client=headquarters))
same(known.revision, 2)

renamed = answered(
    200,
    models.BranchOfficeProfileRevision,
    update_branch_office_profile.sync_detailed(
        client=headquarters,
        body=models.UpdateBranchOfficeProfileRequest(
            command_id="command-1",
            revision_id="revision-1",
            branch_office_profile_id="branch-seoul-1",
            expected_revision=1,
            display_name="서울 본점",
            legal_name="서울산후케어 주식회사",
            contact_email="seoul-1@example.com",
            primary_phone_number="+82212345678",
            address_line="서울특별시 중구 세종대로 110",
            business_registration_reference="business-registration-1",
            reason="A new name.",
        ),
    ),
)
same(renamed.revision_number, 2)

# Beside the walk: what is sent again, a fact, a list, and what was told of all this

again = update_mother_profile.sync_detailed(client=mother, idempotency_key="walk-7", body=profile_as_it_should_be)
profile.idempotent_replay = True
same(answered(200, models.MotherProfile, again), profile)
same(again.headers["idempotent-replayed"], "true")

published = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
consent = models.ConsentVersionFactToPut(
    kind="consent-version",
    id="marketing@client-1",
    revision=1,
    facts=models.ConsentVersionFactsToPut(published_at=published, required=False, current=False),
)
taken = answered(
    200,
    models.FactSummary,
    put_reference_facts.sync_detailed(client=workflow, body=models.ReferenceFacts(facts=[consent])),
)
same(taken.applied, 1)
fact = answered(200, models.ConsentVersionFact, read_fact.sync_detailed(consent.kind, consent.id, client=workflow))
same(fact.facts.published_at, published)

statements = answered(
    200,
    models.StatementsPage,
    list_statements.sync_detailed(client=headquarters, limit=1, order=models.ListStatementsOrder.NEWEST),
)
same(statements.items[0].statement_id, statement.statement_id)

told = answered(
    200,
    models.EventPage,
    read_events.sync_detailed(
        client=headquarters,
        type_=["carebook.settlement-statement.*"],
        subject=f"settlement-statements/{statement_id}",
    ),
)
same(told.end, True)
same(type(told.events[0]), models.SettlementStatementDepositRequestedEvent)
same(told.events[0].data.statement_code, statement.statement_code)

print("\n".join(sorted(succeeded)))
