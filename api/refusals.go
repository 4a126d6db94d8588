package api

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Refusal is what all error answers of one code have in common. Statuses follow one
// rule: 400 to 499 but 429 is for what does not succeed as it is, 429 for a caller
// beyond the caller's own share, 503 for what the server has no room for now.
type Refusal struct {
	Status int    // HTTP status
	Type   string // one of the Type constants

	// Wait is the time after which trying again is worth while, where the error
	// itself does not know better. 0: the same request is refused again.
	Wait time.Duration
}

// Refusals lists the codes of all errors that clients get. docs/errors.md documents
// them, and a test compares it, and the code of this tree, with this list.
var Refusals = map[string]Refusal{
	// the request itself
	"content_policy_violation":    {http.StatusBadRequest, TypeInvalidRequest, 0},
	"context_length_exceeded":     {http.StatusBadRequest, TypeInvalidRequest, 0},
	"duplicate_parameter":         {http.StatusBadRequest, TypeInvalidRequest, 0},
	"invalid_configuration":       {http.StatusUnprocessableEntity, TypeInvalidRequest, 0},
	"invalid_idempotency_key":     {http.StatusBadRequest, TypeInvalidRequest, 0},
	"invalid_json":                {http.StatusBadRequest, TypeInvalidRequest, 0},
	"format_too_complex":          {http.StatusBadRequest, TypeInvalidRequest, 0},
	"invalid_grammar":             {http.StatusBadRequest, TypeInvalidRequest, 0},
	"invalid_schema":              {http.StatusBadRequest, TypeInvalidRequest, 0},
	"invalid_type":                {http.StatusBadRequest, TypeInvalidRequest, 0},
	"invalid_value":               {http.StatusBadRequest, TypeInvalidRequest, 0},
	"malformed_request":           {http.StatusBadRequest, TypeInvalidRequest, 0},
	"missing_required_parameter":  {http.StatusBadRequest, TypeInvalidRequest, 0},
	"model_is_relayed":            {http.StatusBadRequest, TypeInvalidRequest, 0},
	"no_chat_template":            {http.StatusBadRequest, TypeInvalidRequest, 0},
	"prefill_unavailable":         {http.StatusBadRequest, TypeInvalidRequest, 0},
	"request_never_fits":          {http.StatusBadRequest, TypeInvalidRequest, 0},
	"candidate_failed_check":      {http.StatusConflict, TypeInvalidRequest, 0},
	"answer_not_found":            {http.StatusNotFound, TypeInvalidRequest, 0},
	"schema_mismatch":             {http.StatusConflict, TypeInvalidRequest, 0},
	"template_error":              {http.StatusBadRequest, TypeInvalidRequest, 0},
	"thread_unsupported_request":  {http.StatusBadRequest, TypeInvalidRequest, 0},
	"unknown_parameter":           {http.StatusBadRequest, TypeInvalidRequest, 0},
	"unsupported_header":          {http.StatusBadRequest, TypeInvalidRequest, 0},
	"unsupported_parameter":       {http.StatusBadRequest, TypeInvalidRequest, 0},
	"wrong_model_kind":            {http.StatusBadRequest, TypeInvalidRequest, 0},
	"model_not_found":             {http.StatusNotFound, TypeInvalidRequest, 0},
	"batch_not_found":             {http.StatusNotFound, TypeInvalidRequest, 0},
	"file_not_found":              {http.StatusNotFound, TypeInvalidRequest, 0},
	"no_policy":                   {http.StatusNotFound, TypeInvalidRequest, 0},
	"unknown_url":                 {http.StatusNotFound, TypeInvalidRequest, 0},
	"method_not_allowed":          {http.StatusMethodNotAllowed, TypeInvalidRequest, 0},
	"request_timeout":             {http.StatusRequestTimeout, TypeInvalidRequest, time.Second},
	"answer_too_large":            {http.StatusBadRequest, TypeInvalidRequest, 0},
	"batch_ended":                 {http.StatusConflict, TypeInvalidRequest, 0},
	"file_in_use":                 {http.StatusConflict, TypeInvalidRequest, 0},
	"idempotency_in_flight":       {http.StatusConflict, TypeInvalidRequest, 2 * time.Second},
	"idempotency_answer_not_kept": {http.StatusConflict, TypeInvalidRequest, 0},
	"retention_none":              {http.StatusBadRequest, TypeInvalidRequest, 0},
	"idempotency_key_reused":      {http.StatusUnprocessableEntity, TypeInvalidRequest, 0},
	"request_too_large":           {http.StatusRequestEntityTooLarge, TypeInvalidRequest, 0},
	"expectation_failed":          {http.StatusExpectationFailed, TypeInvalidRequest, 0},
	"unsupported_media_type":      {http.StatusUnsupportedMediaType, TypeInvalidRequest, 0},
	"header_too_large":            {http.StatusRequestHeaderFieldsTooLarge, TypeInvalidRequest, 0},
	"vocabulary_unavailable":      {http.StatusNotImplemented, TypeServer, 0},
	"unsupported_operation":       {http.StatusNotImplemented, TypeServer, 0},
	"http_version_not_supported":  {http.StatusHTTPVersionNotSupported, TypeInvalidRequest, 0},
	"previous_response_not_found": {http.StatusBadRequest, TypeInvalidRequest, 0},
	"conversation_not_found":      {http.StatusNotFound, TypeInvalidRequest, 0},
	"response_not_found":          {http.StatusNotFound, TypeInvalidRequest, 0},

	// who calls
	"invalid_api_key":       {http.StatusUnauthorized, TypeInvalidRequest, 0},
	"host_not_allowed":      {http.StatusForbidden, TypeInvalidRequest, 0},
	"insufficient_scope":    {http.StatusForbidden, TypeInvalidRequest, 0},
	"deployment_conflict":   {http.StatusConflict, TypeInvalidRequest, 0},
	"too_many_deployments":  {http.StatusConflict, TypeInvalidRequest, 0},
	"origin_not_allowed":    {http.StatusForbidden, TypeInvalidRequest, 0},
	"store_unavailable":     {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"identity_unavailable":  {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"tenant_not_configured": {http.StatusForbidden, TypeInvalidRequest, 0},
	"region_not_allowed":    {http.StatusForbidden, TypeInvalidRequest, 0},

	// the caller's share, and the time that the caller has
	"client_too_slow":       {http.StatusRequestTimeout, TypeInvalidRequest, 0},
	"deadline_exceeded":     {http.StatusRequestTimeout, TypeInvalidRequest, 0},
	"deadline_unreachable":  {http.StatusTooManyRequests, TypeRateLimit, 0},
	"insufficient_quota":    {http.StatusTooManyRequests, TypeQuota, 0},
	"rate_limit_exceeded":   {http.StatusTooManyRequests, TypeRateLimit, time.Second},
	"client_closed_request": {statusHungUp, TypeInvalidRequest, 0}, // read by clients that have closed their sending half alone
	"response_cancelled":    {statusHungUp, TypeInvalidRequest, 0}, // the client has gone

	// the server
	"constraint_failed":       {http.StatusInternalServerError, TypeServer, 0},
	"engine_unavailable":      {http.StatusServiceUnavailable, TypeUnavailable, 2 * time.Second},
	"classifier_unavailable":  {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"files_unavailable":       {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"idempotency_unavailable": {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"internal_error":          {http.StatusInternalServerError, TypeServer, time.Second},
	"kv_cache_exhausted":      {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"kv_events_unavailable":   {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"model_loading":           {http.StatusServiceUnavailable, TypeUnavailable, 2 * time.Second},
	"tenant_not_found":        {http.StatusNotFound, TypeInvalidRequest, 0},
	"tenant_not_forgotten":    {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"deployment_not_found":    {http.StatusNotFound, TypeInvalidRequest, 0},
	"deployments_unavailable": {http.StatusNotImplemented, TypeServer, 0},
	"deployment_not_changed":  {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"model_not_changed":       {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"prefix_cache_not_reset":  {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"queue_timeout":           {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"quota_unavailable":       {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"request_cancelled":       {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"responses_unavailable":   {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"request_shed":            {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"server_is_overloaded":    {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"server_shutting_down":    {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"too_many_connections":    {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"no_replica":              {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"no_replica_in_region":    {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"upstream_unavailable":    {http.StatusBadGateway, TypeUnavailable, time.Second},
	"usage_unavailable":       {http.StatusServiceUnavailable, TypeUnavailable, time.Second},

	// a replica that is a provider's API (router/provider), and POST /admin/kv-blocks (router/transfer), whose client is a weir
	"unsupported_endpoint":  {http.StatusBadRequest, TypeInvalidRequest, 0},
	"invalid_peer":          {http.StatusUnauthorized, TypeInvalidRequest, 0},
	"kv_identity_differs":   {http.StatusConflict, TypeInvalidRequest, 0},
	"kv_blocks_stay":        {http.StatusConflict, TypeInvalidRequest, 0},
	"kv_blocks_busy":        {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
	"kv_blocks_unavailable": {http.StatusServiceUnavailable, TypeUnavailable, time.Second},
}

// statusHungUp is the status of requests whose clients went away.
const statusHungUp = 499

// Refuse is the error of a code that Refusals lists.
func Refuse(code, message string) *Error {
	r := Refusals[code]
	return &Error{Status: r.Status, Type: r.Type, Code: code, Message: message}
}

// RefuseParam is Refuse of what a parameter of the request says.
func RefuseParam(code, param, format string, args ...any) *Error {
	e := Refuse(code, fmt.Sprintf(format, args...))
	e.Param = param
	return e
}

// RefuseExceeded is RefuseParam of a prompt that does not fit into the context.
func RefuseExceeded(x Exceeded, param, format string, args ...any) *Error {
	e := RefuseParam("context_length_exceeded", param, format, args...)
	e.Exceeded = &x
	return e
}

// LongestWait is the most that a client is asked to wait before it tries again by
// itself: as long as Python's official client waits when it is told to. Go's comes back
// after 8 seconds whatever it is told, and is told the rest then.
const LongestWait = time.Minute

// wait is when trying again is worth while; 0 is never.
func (e *Error) wait() time.Duration {
	if e.RetryAfter > 0 || e.NoRetry {
		return max(e.RetryAfter, 0)
	}
	return Refusals[e.Code].Wait
}

// Retries reports whether the client should try again by itself.
func (e *Error) Retries() bool {
	w := e.wait()
	return !e.NoRetry && w > 0 && w <= LongestWait && !Refusals[e.Code].final()
}

// final tells codes after which the same request is refused again.
func (r Refusal) final() bool { return r.Status != 0 && r.Wait == 0 }

// Headers calls set with the header fields of the error: its code as x-weir-reason,
// x-should-retry, which OpenAI's clients obey whatever the status, and where the end of
// the trouble can be told, Retry-After in whole seconds and retry-after-ms.
func (e *Error) Headers(set func(name, value string)) {
	if e.Code != "" {
		set("X-Weir-Reason", e.Code)
	}
	set("X-Should-Retry", strconv.FormatBool(e.Retries()))
	if w := e.wait(); w > 0 {
		ms := (w + time.Millisecond - 1).Milliseconds()
		set("Retry-After", strconv.FormatInt((ms+999)/1000, 10))
		set("Retry-After-Ms", strconv.FormatInt(ms, 10))
	}
}
