package admin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"weir/api"
	"weir/api/edge"
	"weir/router/rollout"
)

// Rollouts are those of a server's models, for operators. Implementations are safe for concurrent use.
type Rollouts interface {
	// Start begins a plan. An empty stable version is the one that answers now.
	Start(ctx context.Context, by string, p rollout.Plan) (rollout.Status, error)
	// Decide is an operator's word: promote, abort, pause or resume.
	Decide(ctx context.Context, by, model, what string) (rollout.Status, error)
	// Kill aborts all rollouts; until the server restarts there are no others.
	Kill(ctx context.Context, by string) error
	List() []rollout.Status
}

// Rollouts of one server have a path of their own. That of deployments takes them, too, told apart by the words of the body, as it did before there
// was the other.
const (
	rolloutsPath    = "/v1/rollouts"
	deploymentsPath = "/v1/deployments"
)

// killAction is the word that ends all rollouts.
const killAction = "kill"

func (c Config) deployments(w http.ResponseWriter, r *http.Request) {
	list := deploymentsView{Deployments: []DeploymentView{}, Rollouts: orEmpty(c.Rollouts.List())}
	var err error
	if c.Deployer != nil {
		var stored []DeploymentView
		stored, err = c.Deployer.Deployments(r.Context())
		list.Deployments = orEmpty(stored)
	}
	answer(w, http.StatusOK, list, err)
}

// rollouts answers GET of the path of rollouts.
func (c Config) rollouts(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]any{"rollouts": orEmpty(c.Rollouts.List())})
}

// handleRollouts adds the paths of rollouts.
func (c Config) handleRollouts(mux *http.ServeMux) {
	mux.HandleFunc("GET "+rolloutsPath, c.rollouts)
	mux.HandleFunc("POST "+rolloutsPath, func(w http.ResponseWriter, r *http.Request) {
		withBody(w, r, func(body []byte) { c.startRollout(w, r, body, false) })
	})
	mux.HandleFunc("POST "+rolloutsPath+"/{action}", func(w http.ResponseWriter, r *http.Request) { c.decide(w, r, c.rollouts) })
	mux.HandleFunc("GET "+deploymentsPath, c.deployments)
	mux.HandleFunc("POST "+deploymentsPath, c.deploy)
	mux.HandleFunc("POST "+deploymentsPath+"/{action}", func(w http.ResponseWriter, r *http.Request) { c.decide(w, r, c.deployments) })
}

func (c Config) deploy(w http.ResponseWriter, r *http.Request) {
	withBody(w, r, func(body []byte) {
		if isDeployment(body) {
			c.apply(w, r, body)
			return
		}
		c.startRollout(w, r, body, true)
	})
}

// startRollout begins a rollout on this server; either: the body might have been that of a deployment.
func (c Config) startRollout(w http.ResponseWriter, r *http.Request, body []byte, either bool) {
	var p rollout.Plan
	r.Body = io.NopCloser(bytes.NewReader(body))
	err := readBody(r, &p)
	missing, send := "model and candidate are missing", `; send {"model": "chat", "candidate": "2"}`
	if either {
		missing, send = "modelId and version, or model and candidate, are missing",
			`; send {"modelId": "chat", "version": "chat:v2"} for all servers on the store, or {"model": "chat", "candidate": "2"} for a rollout on this one`
	}
	if err == nil && (p.Model == "" || p.Candidate == "") {
		err = errors.New(missing)
	}
	if err != nil {
		refuse(w, api.Refuse("invalid_value", err.Error()+send+", and steps and gates where the usual ones do not do"))
		return
	}
	st, err := c.Rollouts.Start(r.Context(), by(r), p)
	answerRollout(w, st, err)
}

// decide takes an operator's word; list answers where it is of all rollouts.
func (c Config) decide(w http.ResponseWriter, r *http.Request, list http.HandlerFunc) {
	action := r.PathValue("action")
	if action == killAction {
		if err := c.Rollouts.Kill(r.Context(), by(r)); err != nil {
			refuse(w, api.Refuse("deployment_not_changed", err.Error()))
			return
		}
		list(w, r)
		return
	}
	var what struct {
		Model string `json:"model"`
	}
	if err := readBody(r, &what); err != nil || what.Model == "" {
		refuse(w, api.Refuse("invalid_value", `the body must be {"model": "chat"}`))
		return
	}
	st, err := c.Rollouts.Decide(r.Context(), by(r), what.Model, action)
	answerRollout(w, st, err)
}

// outcomes takes in what came of an answer of any tenant.
func (c Config) outcomes(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxChangeBytes))
	if err != nil {
		refuse(w, api.Refuse("invalid_value", "read the request's body: "+err.Error()))
		return
	}
	list, fault := edge.ReadOutcomes(body, "")
	if fault != nil {
		refuse(w, fault)
		return
	}
	for i := range list {
		if err := c.Outcomes(&list[i]); err != nil {
			refuse(w, edge.OutcomeFault(err))
			return
		}
	}
	write(w, http.StatusOK, map[string]any{"object": "outcome", "id": list[0].ID, "counted": true})
}

func answerRollout(w http.ResponseWriter, st rollout.Status, err error) {
	switch {
	case err == nil:
		write(w, http.StatusOK, st)
	case errors.Is(err, rollout.ErrPlan):
		refuse(w, api.Refuse("invalid_value", strings.ReplaceAll(err.Error(), "\n", "; ")))
	case errors.Is(err, rollout.ErrCheck):
		refuse(w, api.Refuse("candidate_failed_check", strings.ReplaceAll(err.Error(), "\n", "; ")))
	case errors.Is(err, rollout.ErrNone), errors.Is(err, ErrNoModel):
		refuse(w, &api.Error{Status: http.StatusNotFound, Type: api.TypeInvalidRequest, Code: "model_not_found", Message: err.Error()})
	case errors.Is(err, rollout.ErrTaken), errors.Is(err, rollout.ErrKilled), errors.Is(err, rollout.ErrOver), errors.Is(err, ErrDeployed):
		refuse(w, &api.Error{Status: http.StatusConflict, Type: api.TypeInvalidRequest, Code: "deployment_conflict", Message: err.Error(), NoRetry: true})
	default:
		refuse(w, api.Refuse("deployment_not_changed", err.Error()))
	}
}
