package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/router"
	"weir/router/provider"
)

// Replicas of some kinds are model providers with APIs of their own. A chat goes there in the provider's words, and the
// answer is a chat's again before anything else here reads it: the table of faults, accounts and breakers are those of any replica.

// chatPath is the path of chat completions, which providers answer.
const chatPath = "/chat/completions"

// warnings is the field in which a weir tells what was ignored of a request.
const warnings = "X-Weir-Warnings"

// providerOf is the API that a request is put into the words of at a kind of replica; nil: it passes as it is.
func (k Kind) providerOf(path string) provider.API {
	t := kinds[k]
	if t.provider == nil || slices.Contains(t.apis, apiOf(path)) {
		return nil
	}
	return t.provider
}

// unsupported is the answer to a request that the replica's API cannot do.
func unsupported(answer *router.Answer, refusal *provider.Refusal) (*router.Answer, error) {
	fault := &faultError{fault: Unsupported, err: refusal}
	answer.Status, answer.Whole, answer.Fault = http.StatusBadRequest, refusal.Body(), fault
	answer.Header.Set("Content-Type", "application/json")
	return answer, fault
}

// translate is exchange with a provider. A model that refuses temperature is asked once more without, and gets none from then on.
func (fl *flight) translate(ctx context.Context, a *attempt, api provider.API, body []byte) (*router.Answer, error) {
	answer, err := fl.translateOnce(ctx, a, api, body)
	if err == nil && !a.replica.fixed.Load() && provider.RefusesSampling(answer.Status, answer.Whole) {
		a.replica.fixed.Store(true)
		answer.Release()
		return fl.translateOnce(ctx, a, api, body)
	}
	return answer, err
}

func (fl *flight) translateOnce(ctx context.Context, a *attempt, api provider.API, body []byte) (*router.Answer, error) {
	r := a.replica
	answer := &router.Answer{Header: make(http.Header), Replica: r.id, Reason: a.reason, Attempts: len(fl.tried), Untold: r.counts.untell}
	if fl.call.Path != chatPath {
		return unsupported(answer, provider.OnlyChats(string(r.target.Kind), fl.call.Path))
	}
	asked, err := api.Request(body, r.model, provider.Options{Stream: fl.call.Stream, Unsampled: r.fixed.Load()})
	if refusal, ok := errors.AsType[*provider.Refusal](err); ok {
		return unsupported(answer, refusal)
	}
	if err != nil {
		return nil, err
	}
	res, err := r.wire.post(ctx, api.Path(r.model, fl.call.Stream), asked.Body)
	if err != nil {
		if notSent(err) {
			err = &faultError{fault: Unreachable, err: err}
		}
		return nil, err
	}
	r.heard.Add(1)
	a.status = res.StatusCode
	answer.Status, answer.Header = res.StatusCode, res.Header
	if len(asked.Ignored) > 0 {
		answer.Header.Set(warnings, "ignored "+strings.Join(asked.Ignored, ", ignored "))
	}
	if _, err := decode(res); err != nil {
		_ = res.Body.Close() // it was not asked for so
		return answer, err
	}
	who := provider.Identity{ID: fl.call.Head.RequestID, Model: r.model, Created: time.Now().Unix()}
	if fl.call.Stream && res.StatusCode == http.StatusOK && api.Streams(res.Header.Get("Content-Type")) {
		return fl.opened(answer, &stream{flight: fl, attempt: a, body: translated{provider.NewStream(api, res.Body, who)}})
	}
	defer func() { _ = res.Body.Close() }() // all that was wanted of it was read
	return fl.translateWhole(api, answer, res, who)
}

// translateWhole reads an answer that is no stream.
func (fl *flight) translateWhole(api provider.API, answer *router.Answer, res *http.Response, who provider.Identity) (*router.Answer, error) {
	err := fl.fleet.read(answer, res.Body, res.ContentLength, fl.call.MostBytes)
	if err != nil {
		return nil, err
	}
	said := answer.Whole
	if faultOf(answer.Status) != NoFault {
		answer.Status, answer.Whole = provider.Error(api, answer.Status, answer.Header, said)
		answer.Header.Set("Content-Type", "application/json")
		return answer, nil
	}
	if answer.Whole, err = provider.Whole(api, said, who); err != nil {
		return answer, BadAnswer.because("%w", err)
	}
	if err = count(answer); err != nil {
		return nil, err
	}
	answer.Header.Set("Content-Type", "application/json")
	return answer, fl.check(answer)
}

// judgeStatus gives a refusal that a provider has sent to a request in its own words the status that says what it means, where its own
// would be judged otherwise: of an empty balance, which is no fault of the request.
func (r *replica) judgeStatus(a *router.Answer) {
	if api := kinds[r.target.Kind].provider; api != nil {
		if status, _ := provider.Error(api, a.Status, a.Header, a.Whole); faultOf(status) != faultOf(a.Status) {
			a.Status = status
		}
	}
}

// translated is a provider's stream as that of a chat.
type translated struct{ *provider.Stream }

func (t translated) Read(p []byte) (int, error) {
	n, err := t.Stream.Read(p)
	if errors.Is(err, provider.ErrUnreadable) {
		err = BadAnswer.because("%w", err)
	}
	return n, err
}

// post sends a body in a provider's words to a path below the base URL.
func (w *endpoint) post(ctx context.Context, path string, body []byte) (*http.Response, error) {
	address := strings.TrimSuffix(w.base.String(), "/") + path // a path may hold escapes that JoinPath would read
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("relay to %s: %w", w.base.Host, err)
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Content-Type", "application/json")
	if err := w.provider.Authorize(req, w.key, body); err != nil {
		return nil, Misconfigured.because("%w", err)
	}
	res, err := w.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("relay to %s: %w", w.base.Host, plain(err))
	}
	return res, nil
}

// introduce adds to a request that a provider gets as the client has sent it what its API wants in the header.
func (w *endpoint) introduce(req *http.Request, h *router.Head) error {
	req.Header.Set("User-Agent", userAgent)
	if h.Beta != "" {
		req.Header.Set("Anthropic-Beta", h.Beta)
	}
	if err := w.provider.Authorize(req, w.key, nil); err != nil {
		return Misconfigured.because("%w", err)
	}
	if h.Version != "" { // the body is of the client's version
		req.Header.Set("Anthropic-Version", h.Version)
	}
	return nil
}
