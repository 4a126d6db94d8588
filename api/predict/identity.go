package predict

import (
	"fmt"
	"slices"
	"strings"

	"weir/api"
	"weir/api/edge"
	"weir/internal/tensor"
	"weir/router"
)

// Who a request is, and which version answers it. A request has one id: that of the client's header x-request-id, else V2's own id,
// else ours (of a message in a gRPC stream: its own id, else ours). The answer, the prediction log, the server's log, traces and
// rollouts have that one.

// userHeader says whom a request is about: the same user gets the same version of a rollout. V2's parameter user says the same.
const userHeader = "X-Weir-User"

// maxUserBytes bounds what names a user.
const maxUserBytes = 256

// name takes the client's name for the request as its id, if it can be sent back.
func (j *job) name(own string) {
	if edge.IsPlain([]byte(own)) {
		j.id, j.named = own, true
	}
}

// isAbout says whom the request is about, unless it was said before.
func (j *job) isAbout(user string) *api.Error {
	if len(user) > maxUserBytes {
		return api.Refuse("invalid_value", fmt.Sprintf("the user has %d bytes; at most %d are taken: send an id or a hash", len(user), maxUserBytes))
	}
	if j.user == "" {
		j.user = user
	}
	return nil
}

// label writes into an answer's header which version answers, and as which arm of a rollout.
func (j *job) label(set func(name, value string)) {
	if j.about != nil && edge.IsPlain([]byte(j.about.Version)) {
		set("X-Weir-Version", j.about.Version)
	}
	if j.arm.Name != "" {
		set("X-Weir-Arm", j.arm.Name)
	}
}

// entityOf is whom the first row is about, by the inputs that name it; "" where one is missing.
func entityOf(about *router.Description, in []tensor.Tensor) string {
	var parts []string
	for _, name := range about.Entity {
		i := slices.IndexFunc(in, func(t tensor.Tensor) bool { return t.Name == name })
		if i < 0 {
			return ""
		}
		part, ok := in[i].Text(0)
		if !ok {
			return ""
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "\x00")
}
