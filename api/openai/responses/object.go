package responses

import (
	"strconv"

	"weir/api"
	"weir/api/conversation"
	"weir/api/edge"
	"weir/api/openai/answer"
	"weir/api/openai/job"
)

// State is what changes of a response while it is made.
type State struct {
	status string        // in_progress, completed, incomplete, failed
	reason string        // of incomplete
	limit  string        // of the tenant, that made it incomplete
	fault  *api.Error    // of failed
	usage  *answer.Usage // nil: not known yet
}

// appendIncomplete appends incomplete_details.
func (s *State) appendIncomplete(dst []byte) []byte {
	if s.reason == "" {
		return append(dst, "null"...)
	}
	dst = append(append(append(dst, `{"reason":"`...), s.reason...), '"')
	if s.limit != "" {
		dst = api.AppendString(append(dst, `,"limit":`...), s.limit)
	}
	return append(dst, '}')
}

// appendObject appends a response with the items that are closed.
func (e *Encoder) appendObject(dst []byte, s State) []byte {
	j, r := e.job, e.request
	dst = append(append(append(dst, `{"id":"`...), j.ID...), `","object":"response","created_at":`...)
	dst = strconv.AppendInt(dst, j.Created, 10)
	dst = append(append(append(dst, `,"status":"`...), s.status...), `","background":`...)
	dst = append(strconv.AppendBool(dst, r.background), `,"error":`...)
	dst = AppendFault(dst, s.fault)
	dst = append(dst, `,"incomplete_details":`...)
	dst = s.appendIncomplete(dst)
	dst = append(append(dst, `,"instructions":`...), r.instructions...)
	dst = append(append(dst, `,"max_output_tokens":`...), r.maxTokens...)
	dst = append(dst, `,"max_tool_calls":null,"model":`...)
	dst = api.AppendString(dst, j.Model.ID)
	dst = append(append(append(dst, `,"output":[`...), e.output...), `],"parallel_tool_calls":`...)
	dst = strconv.AppendBool(dst, r.parallel)
	dst = append(dst, `,"previous_response_id":`...)
	if r.Previous == "" {
		dst = append(dst, "null"...)
	} else {
		dst = api.AppendString(dst, r.Previous)
	}
	if r.Conversation != "" {
		dst = append(api.AppendString(append(dst, `,"conversation":{"id":`...), r.Conversation), '}')
	}
	dst = append(append(dst, `,"reasoning":{"effort":`...), r.effort...)
	dst = append(append(dst, `,"summary":`...), r.Summary...)
	dst = append(append(dst, `},"service_tier":`...), e.tier()...)
	dst = append(dst, `,"store":`...)
	dst = append(strconv.AppendBool(dst, r.Store), `,"temperature":`...)
	dst = appendParameter(dst, j.Params.Sampling.Temperature)
	dst = append(append(dst, `,"text":`...), r.text...)
	dst = append(append(dst, `,"tool_choice":`...), r.toolChoice...)
	dst = append(append(dst, `,"tools":`...), r.tools...)
	dst = append(dst, `,"top_logprobs":`...)
	dst = strconv.AppendInt(dst, int64(max(0, j.Params.Sampling.Logprobs)), 10)
	dst = append(dst, `,"top_p":`...)
	dst = appendParameter(dst, j.Params.Sampling.TopP)
	truncation := "disabled"
	if r.Truncates {
		truncation = "auto"
	}
	dst = append(append(append(dst, `,"truncation":"`...), truncation...), `","usage":`...)
	dst = AppendUsage(dst, s.usage)
	dst = append(dst, r.labels...)
	dst = append(append(dst, `,"metadata":`...), r.metadata...)
	return append(dst, '}')
}

// appendLast appends the response as it ends, and keeps it. One that could not be kept says so.
func (e *Encoder) appendLast(dst []byte, s State) []byte {
	from := len(dst)
	dst = e.appendObject(dst, s)
	if r := e.request; r.Keeper != nil && !r.Keeper.Keep(s.status, dst[from:]) {
		r.Store = false
		dst = e.appendObject(dst[:from], s)
	}
	return dst
}

// tier is the JSON of the tier that the request was served with.
func (e *Encoder) tier() string {
	if t := e.job.Terms.Tier; t != "" {
		return `"` + t + `"`
	}
	return `"default"`
}

func appendParameter(dst []byte, v float32) []byte {
	return strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
}

// AppendFault appends the error of a response.
func AppendFault(dst []byte, fault *api.Error) []byte {
	if fault == nil {
		return append(dst, "null"...)
	}
	dst = api.AppendString(append(dst, `{"code":`...), fault.Code)
	return append(api.AppendString(append(dst, `,"message":`...), fault.Message), '}')
}

// AppendUsage appends the usage of a response.
func AppendUsage(dst []byte, u *answer.Usage) []byte {
	if u == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Prompt), 10)
	dst = append(dst, `,"input_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Cached), 10)
	dst = append(dst, `,"cache_write_tokens":0},"output_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Output), 10)
	dst = append(dst, `,"output_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Reasoning), 10)
	dst = append(dst, `},"total_tokens":`...)
	return append(strconv.AppendInt(dst, int64(u.Prompt+u.Output), 10), '}')
}

// Begin stores a response that is computed in the background, and gives the object of its answer.
func Begin(j *job.Job) (object []byte, kept bool) {
	e := &Encoder{job: j, request: RequestOf(j)}
	kept = RequestOf(j).Keeper.Keep(conversation.InProgress, e.appendObject(nil, State{status: conversation.InProgress}))
	return e.appendObject(nil, State{status: conversation.Queued}), kept
}

// KeepFault stores the end of a response that is no answer.
func KeepFault(j *job.Job, fault *api.Error) {
	state := State{status: "failed", fault: fault}
	if fault.Status == edge.StatusHungUp {
		state = State{status: conversation.Cancelled}
	}
	e := &Encoder{job: j, request: RequestOf(j)}
	RequestOf(j).Keeper.Keep(state.status, e.appendObject(nil, state))
}
