"""The declarations of the shipped sources. A test compares those of AWS with botocore's models."""

from __future__ import annotations

from collections.abc import Mapping

from longwatch.executions.sources.declarations import (
    AwsCall,
    Declaration,
    HttpCall,
    Items,
    Operation,
    normalize,
    statuses,
)

HOUR = 3600.0


def _statuses(listed: str) -> frozenset[str]:
    return frozenset(normalize(status) for status in listed.split())


STEP_FUNCTIONS = Declaration(
    name="step-functions",
    about="An execution of a Step Functions state machine (not an express one), by its ARN",
    prefix="aws:step-functions:",
    id_shape=r"arn:[^:]+:states:[^:]+:[0-9]{12}:execution:.+",
    call=AwsCall(
        service="stepfunctions",
        signed_as="states",
        operation="DescribeExecution",
        parameters={"executionArn": "{id}"},
        unknown=(("ExecutionDoesNotExist", ""),),
        refused=frozenset({"InvalidArn"}),
    ),
    status="status",
    statuses=statuses(
        pending="PENDING_REDRIVE",
        running="RUNNING",
        succeeded="SUCCEEDED",
        failed="FAILED TIMED_OUT",
        cancelled="ABORTED",
    ),
    reason=("error", "cause"),
    began="startDate",
    plan="stateMachineArn",
    since="redriveDate",  # a redriven execution keeps its ARN
)

CODEBUILD = Declaration(
    name="codebuild",
    about="A CodeBuild build, by its id PROJECT:UUID or its ARN",
    prefix="aws:codebuild:",
    id_shape=r".+:.+",
    call=AwsCall(
        service="codebuild",
        operation="BatchGetBuilds",
        ids="ids",
        at_once=100,
        results="builds",
        key=("id", "arn"),
        refused=frozenset({"InvalidInputException"}),
    ),
    status="buildStatus",
    statuses=statuses(
        running="IN_PROGRESS", succeeded="SUCCEEDED", failed="FAILED FAULT TIMED_OUT", cancelled="STOPPED"
    ),
    stage="currentPhase",
    waiting=_statuses("SUBMITTED QUEUED"),
    items=Items(
        at="phases",
        name="phaseType",
        status="phaseStatus",
        statuses=statuses(
            running="IN_PROGRESS", succeeded="SUCCEEDED", failed="FAILED FAULT TIMED_OUT", cancelled="STOPPED"
        ),
        reason="contexts[0].message",
        left_out=frozenset({"COMPLETED"}),  # listed as a phase, and never with a status
    ),
    began="startTime",
    plan="projectName",
    deadline_seconds=HOUR,
)

BATCH = Declaration(
    name="batch",
    about="An AWS Batch job, by its id; an array job is one, and ends when all its children have",
    prefix="aws:batch:",
    call=AwsCall(
        service="batch",
        operation="DescribeJobs",
        ids="jobs",
        at_once=100,
        results="jobs",
        key=("jobId", "jobArn"),
        refused=frozenset({"ClientException"}),
    ),
    status="status",
    statuses=statuses(
        pending="SUBMITTED PENDING RUNNABLE",
        running="STARTING RUNNING",
        succeeded="SUCCEEDED",
        failed="FAILED",
    ),
    reason=("statusReason", "container.reason"),
    cancelled=("isCancelled",),
    began="createdAt",
    plan="jobDefinition",
)

GLUE = Declaration(
    name="glue",
    about="A run of a Glue job, by JOB/RUN",
    prefix="aws:glue:",
    call=AwsCall(
        service="glue",
        operation="GetJobRun",
        parameters={"JobName": "{1}", "RunId": "{2}"},
        divider="/",
        results="JobRun",
        unknown=(("EntityNotFoundException", ""),),
        refused=frozenset({"InvalidInputException"}),
    ),
    status="JobRunState",
    statuses=statuses(
        pending="STARTING WAITING",
        running="RUNNING STOPPING",
        succeeded="SUCCEEDED",
        failed="FAILED ERROR TIMEOUT EXPIRED",
        cancelled="STOPPED",
    ),
    reason=("ErrorMessage",),
    began="StartedOn",
    plan="JobName",
)

CLOUDFORMATION = Declaration(
    name="cloudformation",
    about="An operation on a CloudFormation stack, by the stack's name or ARN",
    prefix="aws:cloudformation:",
    call=AwsCall(
        service="cloudformation",
        operation="DescribeStacks",
        parameters={"StackName": "{id}"},
        results="Stacks[0]",
        unknown=(("ValidationError", "does not exist"),),
        refused=frozenset({"ValidationError"}),
    ),
    status="StackStatus",
    statuses=statuses(
        pending="REVIEW_IN_PROGRESS",
        running="CREATE_IN_PROGRESS ROLLBACK_IN_PROGRESS DELETE_IN_PROGRESS UPDATE_IN_PROGRESS "
        "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS UPDATE_ROLLBACK_IN_PROGRESS "
        "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS IMPORT_IN_PROGRESS IMPORT_ROLLBACK_IN_PROGRESS",
        succeeded="CREATE_COMPLETE UPDATE_COMPLETE DELETE_COMPLETE IMPORT_COMPLETE",
        # An operation that ends in a rollback has failed.
        failed="CREATE_FAILED ROLLBACK_FAILED ROLLBACK_COMPLETE DELETE_FAILED UPDATE_FAILED "
        "UPDATE_ROLLBACK_FAILED UPDATE_ROLLBACK_COMPLETE IMPORT_ROLLBACK_FAILED IMPORT_ROLLBACK_COMPLETE",
    ),
    reason=("StackStatusReason",),
    items=Items(
        at="StackResourceSummaries",
        name="LogicalResourceId",
        status="ResourceStatus",
        reason="ResourceStatusReason",
        statuses=statuses(
            running="CREATE_IN_PROGRESS DELETE_IN_PROGRESS UPDATE_IN_PROGRESS IMPORT_IN_PROGRESS "
            "IMPORT_ROLLBACK_IN_PROGRESS EXPORT_IN_PROGRESS EXPORT_ROLLBACK_IN_PROGRESS "
            "UPDATE_ROLLBACK_IN_PROGRESS ROLLBACK_IN_PROGRESS",
            succeeded="CREATE_COMPLETE DELETE_COMPLETE DELETE_SKIPPED UPDATE_COMPLETE IMPORT_COMPLETE "
            "IMPORT_ROLLBACK_COMPLETE EXPORT_COMPLETE EXPORT_ROLLBACK_COMPLETE UPDATE_ROLLBACK_COMPLETE "
            "ROLLBACK_COMPLETE",
            failed="CREATE_FAILED DELETE_FAILED UPDATE_FAILED IMPORT_FAILED IMPORT_ROLLBACK_FAILED "
            "EXPORT_FAILED EXPORT_ROLLBACK_FAILED UPDATE_ROLLBACK_FAILED ROLLBACK_FAILED",
        ),
        call=AwsCall(
            service="cloudformation",
            operation="ListStackResources",
            parameters={"StackName": "{id}"},
            token=("NextToken", "NextToken"),
        ),
    ),
    began="CreationTime",
    plan="StackName",
    own_id="StackId",  # it also finds a deleted stack, and not a later one of the same name
    operations=(
        Operation(
            name="create",
            since="CreationTime",
            statuses=_statuses(
                "REVIEW_IN_PROGRESS CREATE_IN_PROGRESS CREATE_FAILED CREATE_COMPLETE ROLLBACK_IN_PROGRESS "
                "ROLLBACK_FAILED ROLLBACK_COMPLETE"
            ),
        ),
        Operation(
            name="update",
            since="LastUpdatedTime",
            statuses=_statuses(
                "UPDATE_IN_PROGRESS UPDATE_COMPLETE_CLEANUP_IN_PROGRESS UPDATE_COMPLETE UPDATE_FAILED "
                "UPDATE_ROLLBACK_IN_PROGRESS UPDATE_ROLLBACK_FAILED "
                "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS UPDATE_ROLLBACK_COMPLETE"
            ),
        ),
        Operation(
            name="delete",
            since="DeletionTime",
            statuses=_statuses("DELETE_IN_PROGRESS DELETE_FAILED DELETE_COMPLETE"),
        ),
        Operation(
            name="import",
            since="LastUpdatedTime",
            statuses=_statuses(
                "IMPORT_IN_PROGRESS IMPORT_COMPLETE IMPORT_ROLLBACK_IN_PROGRESS IMPORT_ROLLBACK_FAILED "
                "IMPORT_ROLLBACK_COMPLETE"
            ),
        ),
    ),
    deadline_seconds=HOUR,
)

COMMON_STATUSES = statuses(
    pending="pending queued waiting scheduled submitted accepted created",
    running="running in_progress inprogress started starting active processing building executing HTTP_202",
    succeeded="succeeded success successful completed complete done finished ok passed",
    failed="failed failure error errored fault timed_out timeout expired rejected",
    cancelled="cancelled canceled aborted stopped revoked terminated",
)
"""The statuses of most HTTP APIs. The code of a response is a status too: 202 is running."""
CODE_STATUSES = statuses(succeeded="HTTP_200 HTTP_201 HTTP_203 HTTP_204")
"""The codes of responses without a status, where the user accepts the code as one."""

HTTP = Declaration(
    name="http",
    about="Any HTTP endpoint that reports a status, by its URL",
    call=HttpCall(),
    status=None,
    statuses=COMMON_STATUSES,
    repeats=True,
    pending_seconds=15.0,
    running_seconds=10.0,
)

GITHUB = Declaration(
    name="github",
    about="A run of a GitHub Actions workflow, by OWNER/REPOSITORY/RUN",
    prefix="github:",
    id_shape=r"[^/]+/[^/]+/[0-9]+",
    call=HttpCall(
        url="${GITHUB_API_URL:-https://api.github.com}/repos/{+1}/actions/runs/{2}",
        divider="/",
        headers={
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "Authorization": "Bearer ${GH_TOKEN|GITHUB_TOKEN:-}",
        },
    ),
    status="status",
    outcome=("conclusion",),
    statuses=statuses(
        # An approval that is required comes as a conclusion; the run resumes under the same id.
        pending="queued waiting requested pending action_required",
        running="in_progress",
        succeeded="success neutral",
        failed="failure timed_out startup_failure",
        cancelled="cancelled skipped",
        ended="completed stale",
    ),
    began="run_started_at",
    since="run_started_at",  # another attempt has the same id
    pending_seconds=15.0,
    running_seconds=15.0,
)

GITLAB = Declaration(
    name="gitlab",
    about="A GitLab pipeline, by GROUP/PROJECT/PIPELINE",
    prefix="gitlab:",
    id_shape=r".+/[0-9]+",
    call=HttpCall(
        url="${GITLAB_HOST|CI_SERVER_URL:-https://gitlab.com}/api/v4/projects/{1}/pipelines/{2}",
        divider="/",
        headers={"PRIVATE-TOKEN": "${GITLAB_TOKEN|GITLAB_ACCESS_TOKEN:-}"},
    ),
    status="status",
    outcome=("status",),  # the status has the outcome
    statuses=statuses(
        pending="created waiting_for_resource waiting_for_callback preparing pending manual scheduled",
        running="running canceling",
        succeeded="success",
        failed="failed",
        cancelled="canceled skipped",
    ),
    reason=("yaml_errors",),
    began="created_at",
    pending_seconds=15.0,
    running_seconds=15.0,
)

JENKINS = Declaration(
    name="jenkins",
    about="A Jenkins build, by the path of its page: job/NAME/NUMBER",
    prefix="jenkins:",
    call=HttpCall(
        # Without `tree` the response holds every change and artifact of the build.
        url="${JENKINS_URL}/{+1}/{2}/api/json?tree=building,result,timestamp,fullDisplayName,url",
        divider="/",
        headers={"Authorization": "Basic ${JENKINS_USER_ID:-}:${JENKINS_API_TOKEN:-}"},
    ),
    status="building",
    outcome=("result",),  # also set while it is building
    statuses=statuses(
        running="true",
        succeeded="SUCCESS",
        failed="FAILURE UNSTABLE",
        cancelled="ABORTED NOT_BUILT",
        ended="false",
    ),
    began="timestamp",
    pending_seconds=10.0,
    running_seconds=10.0,
)

AWS: Mapping[str, Declaration] = {
    each.name: each for each in (STEP_FUNCTIONS, CODEBUILD, BATCH, GLUE, CLOUDFORMATION)
}
CI: Mapping[str, Declaration] = {each.name: each for each in (GITHUB, GITLAB, JENKINS)}
