package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/replay"
	"weir/router/deployment"
	"weir/router/rollout"
)

// Deployer keeps which version of a model all servers on the store shall answer with, for operators. What a request cannot
// have is an *api.Error; other errors are of the store. Implementations are safe for concurrent use.
type Deployer interface {
	// Apply asks for a version: {"modelId", "version", "resources", "rolloutPolicy", "warm",
	// "replicas", "nodeSelector", "affinity"}. The same again changes nothing.
	Apply(ctx context.Context, by string, body []byte, m Match) (v DeploymentView, created bool, err error)
	Deployments(ctx context.Context) ([]DeploymentView, error)
	Deployment(ctx context.Context, model string) (DeploymentView, error)
	// Undeploy gives the model's name back to the configurations of the servers.
	Undeploy(ctx context.Context, by, model string, m Match) error
}

// ErrDeployed says that a deployment decides which version of a model answers, so that no other call may change it.
var ErrDeployed = errors.New("a deployment decides which version answers on all servers")

// Match is the state that a change is for: a generation, or none where None is set; the zero value is any.
type Match struct {
	Generation int64
	None       bool
}

// DeploymentView is a deployment as the admin listener shows it: what is wanted in the words of the request, what each
// server does, and why they differ.
type DeploymentView struct {
	ModelID       string            `json:"modelId"`
	Version       string            `json:"version"`
	Digest        string            `json:"digest,omitempty"`
	Label         string            `json:"label"` // of the version: modelId@label names it in requests
	Resources     map[string]any    `json:"resources,omitempty"`
	RolloutPolicy any               `json:"rolloutPolicy"`
	Warm          any               `json:"warm,omitempty"`
	Replicas      int               `json:"replicas,omitempty"` // servers that have a part; 0: all that may
	NodeSelector  map[string]string `json:"nodeSelector,omitempty"`
	Affinity      any               `json:"affinity,omitempty"`
	Generation    int64             `json:"generation"`

	State     deployment.Summary       `json:"state"`
	Why       []string                 `json:"why"`
	Answers   string                   `json:"answers,omitempty"` // label of the version that answered last as it was wanted
	Rollout   string                   `json:"rollout,omitempty"` // its id
	Progress  *deployment.Progress     `json:"progress,omitempty"`
	Instances []deployment.Observation `json:"instances"`
	History   []deployment.Revision    `json:"history,omitempty"`

	Created time.Time `json:"created"`
	Changed time.Time `json:"changed"`
	By      string    `json:"by"`
}

// ViewOf shows a record and what servers observe of it.
func ViewOf(r *deployment.Record, seen []deployment.Observation) DeploymentView {
	v := DeploymentView{
		ModelID: r.Model, Version: r.Wanted.Version, Digest: r.Wanted.Digest, Label: r.Wanted.Label, RolloutPolicy: "immediate", Generation: r.Generation,
		Rollout: r.Rollout, Progress: r.Progress, Instances: orEmpty(seen), History: r.History, Created: r.Created, Changed: r.Changed, By: r.By,
	}
	if r.Policy != nil {
		v.RolloutPolicy = policyOf(r.Policy)
	} else if r.Unchecked {
		v.RolloutPolicy = deployment.UncheckedPolicy
	}
	if len(r.Warm.Versions) > 0 {
		v.Warm = r.Warm.Versions
	} else if r.Warm.Previous > 0 {
		v.Warm = r.Warm.Previous
	}
	if p := r.Placement; p != nil {
		v.Replicas, v.NodeSelector, v.Affinity = p.Replicas, p.NodeSelector, affinityOf(p)
	}
	if len(r.Wanted.Resources) > 0 {
		v.Resources = make(map[string]any)
		for key, value := range r.Wanted.Resources {
			v.Resources[key] = value
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				v.Resources[key] = n
			}
		}
	}
	if r.Settled != nil {
		v.Answers = r.Settled.Label
	}
	v.State, v.Why = r.Summarise(seen)
	v.Why = orEmpty(v.Why)
	return v
}

// rolloutPolicy is what a request says of a plan: no model, no versions and no id.
type rolloutPolicy struct {
	Steps     []rollout.Step   `json:"steps,omitempty"`
	Sticky    rollout.Sticky   `json:"sticky,omitempty"`
	Gates     rollout.Gates    `json:"gates,omitzero"`
	CopyShare float64          `json:"copy_share,omitempty"`
	Golden    []rollout.Golden `json:"golden,omitempty"`
	Unchecked bool             `json:"unchecked,omitempty"`
	Goal      *rollout.Goal    `json:"goal,omitempty"`
	Compare   bool             `json:"compare,omitempty"`
}

func policyOf(p *rollout.Plan) rolloutPolicy {
	return rolloutPolicy{p.Steps, p.Sticky, p.Gates, p.CopyShare, p.Golden, p.Unchecked, p.Goal, p.Compare}
}

// affinityOf is a placement's affinity in the words of the request; nil: none.
func affinityOf(p *deployment.Placement) any {
	if len(p.Affinity) == 0 {
		return nil
	}
	terms := make([]any, len(p.Affinity))
	for i, t := range p.Affinity {
		terms[i] = map[string]any{"matchExpressions": t}
	}
	return map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{"nodeSelectorTerms": terms}}}
}

// handleDeployer adds the paths of single deployments.
func (c Config) handleDeployer(mux *http.ServeMux) {
	mux.HandleFunc("GET "+deploymentsPath+"/{model...}", func(w http.ResponseWriter, r *http.Request) {
		view, err := c.Deployer.Deployment(r.Context(), r.PathValue("model"))
		answerView(w, http.StatusOK, &view, err)
	})
	mux.HandleFunc("DELETE "+deploymentsPath+"/{model...}", func(w http.ResponseWriter, r *http.Request) {
		match, err := matchOf(r)
		if err == nil {
			err = c.Deployer.Undeploy(r.Context(), by(r), r.PathValue("model"), match)
		}
		answer(w, http.StatusOK, map[string]any{"deleted": true}, err)
	})
}

// apply answers POST with the body of a deployment.
func (c Config) apply(w http.ResponseWriter, r *http.Request, body []byte) {
	if c.Deployer == nil {
		refuse(w, api.Refuse("deployments_unavailable", "deployments are kept in the store, and this server has none: start it with --store sqlite:PATH or --store postgres://…"))
		return
	}
	c.once(w, r, body, func(w http.ResponseWriter) {
		match, err := matchOf(r)
		var view DeploymentView
		status := http.StatusOK
		if err == nil {
			var created bool
			if view, created, err = c.Deployer.Apply(r.Context(), by(r), body, match); created {
				status = http.StatusCreated
			}
		}
		answerView(w, status, &view, err)
	})
}

func answerView(w http.ResponseWriter, status int, v *DeploymentView, err error) {
	if err == nil {
		w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(v.Generation, 10)))
	}
	answer(w, status, v, err)
}

// matchOf reads If-Match and If-None-Match.
func matchOf(r *http.Request) (m Match, err error) {
	if none := r.Header.Get("If-None-Match"); none != "" {
		if none != "*" {
			return m, api.Refuse("invalid_value", fmt.Sprintf(`If-None-Match is %.40q; * is what it may be: no deployment of the model must be there`, none))
		}
		m.None = true
	}
	if tag := r.Header.Get("If-Match"); tag != "" && tag != "*" {
		m.Generation, err = strconv.ParseInt(strings.Trim(tag, `"`), 10, 64)
		if err != nil || m.Generation <= 0 || m.None {
			return m, api.Refuse("invalid_value", fmt.Sprintf(`If-Match is %.40q; it must be the generation that GET /v1/deployments/{modelId} shows, as "3", and without If-None-Match`, tag))
		}
	}
	return m, nil
}

// isDeployment reports whether a body is that of a deployment on all servers, and not of a rollout on this one.
func isDeployment(body []byte) bool {
	var keys struct {
		Model   *json.RawMessage `json:"modelId"`
		Version *json.RawMessage `json:"version"`
	}
	return json.Unmarshal(body, &keys) == nil && (keys.Model != nil || keys.Version != nil)
}

// deploymentsView is what GET /v1/deployments answers.
type deploymentsView struct {
	Deployments []DeploymentView `json:"deployments"`
	Rollouts    []rollout.Status `json:"rollouts"` // on this server
}

const (
	keyHeader = "Idempotency-Key"
	keyTenant = "/admin" // that keys of this listener belong to: no tenant has a name of this form
)

// once executes a request with an idempotency key once, over all servers on the store.
func (c Config) once(w http.ResponseWriter, r *http.Request, body []byte, do func(w http.ResponseWriter)) {
	text := r.Header.Get(keyHeader)
	if text == "" {
		do(w)
		return
	}
	key, err := replay.ParseKey(text)
	if err != nil || c.Claims == nil || c.KeyTTL <= 0 {
		if err == nil {
			err = fmt.Errorf("this server keeps no idempotency keys; leave out %s", keyHeader)
		}
		refuse(w, api.Refuse("invalid_idempotency_key", err.Error()))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), edge.AskTimeout)
	defer cancel()
	fingerprint := replay.Fingerprint(r.Method+" "+r.URL.Path+" "+r.Header.Get("If-Match"), body)
	found, err := c.Claims.Begin(ctx, replay.Request{Tenant: keyTenant, Key: key, Fingerprint: fingerprint, TTL: c.KeyTTL})
	switch {
	case err != nil:
		refuse(w, api.Refuse("idempotency_unavailable", "the store of idempotency keys does not answer; retry, or leave out "+keyHeader))
	case found.State == replay.Begun:
		c.finish(w, r, found.Claim, do)
	case found.State == replay.Answered:
		c.replayed(w, found.Answer)
	case found.State == replay.Differs:
		refuse(w, api.Refuse("idempotency_key_reused", "this "+keyHeader+" came with another body before; send a new key with a new request"))
	default:
		refuse(w, api.Refuse("idempotency_in_flight", "the request with this "+keyHeader+" is still running; retry later to get its answer"))
	}
}

// finish executes a request, and keeps its answer unless it may have another one later.
func (c Config) finish(w http.ResponseWriter, r *http.Request, claim replay.Claim, do func(w http.ResponseWriter)) {
	ctx := context.WithoutCancel(r.Context())
	rec := &recorder{ResponseWriter: w, status: http.StatusOK}
	done := false
	defer func() {
		if !done {
			_ = c.Claims.Abandon(ctx, claim) // the store tries again by itself
		}
	}()
	do(rec)
	if rec.status >= http.StatusBadRequest {
		return
	}
	a := &replay.Answer{Status: rec.status, ContentType: "application/json", Body: rec.body.Bytes(), Headers: []string{"ETag: " + rec.Header().Get("ETag")}}
	if form, err := a.Encode(); err == nil {
		done = c.Claims.Finish(ctx, claim, form) == nil
	}
}

func (c Config) replayed(w http.ResponseWriter, stored []byte) {
	a, err := replay.Decode(stored)
	if err != nil {
		refuse(w, api.Refuse("internal_error", "the answer that is stored for this "+keyHeader+" cannot be read; send a new key"))
		return
	}
	for _, field := range a.Headers {
		if name, value, ok := strings.Cut(field, ": "); ok {
			w.Header().Set(name, value)
		}
	}
	w.Header().Set("X-Weir-Replayed", "true")
	w.Header().Set("Content-Type", a.ContentType)
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // a broken peer is no news
}

// recorder keeps what is answered.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	r.body.Write(b)
	return r.ResponseWriter.Write(b)
}
