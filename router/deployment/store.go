package deployment

import "context"

// Store keeps what is wanted, and what servers observe; internal/store has it. All methods may be called at the same time,
// also from several processes.
type Store interface {
	// DeploymentRevision is that of the last change of any record; 0: there never was one.
	DeploymentRevision(ctx context.Context) (int64, error)
	// Deployments are all records, in the order of their models.
	Deployments(ctx context.Context) ([]Record, error)
	// Deployment is the record of a model, if there is one.
	Deployment(ctx context.Context, model string) (r Record, ok bool, err error)
	// ChangeDeployment replaces a model's record by what f returns, in one transaction; changes of one record run one after
	// the other. old is nil where there is no record, and f returns nil to delete it. An error of f is returned, and changes
	// nothing.
	ChangeDeployment(ctx context.Context, model string, f func(old *Record) (*Record, error)) error
	// Observe notes what this server sees, in the place of what it saw of the same model. It stands as long as the server's
	// lease.
	Observe(ctx context.Context, o Observation) error
	// Unobserve takes back what this server has seen of a model.
	Unobserve(ctx context.Context, model string) error
	// Observations are those of all servers whose lease stands, in the order of models and instances.
	Observations(ctx context.Context) ([]Observation, error)

	// Announce notes what this server says of itself, in the place of what it said before. It stands as long as the server's lease.
	Announce(ctx context.Context, d Server) error
	// Servers are those whose lease stands, as they have announced themselves.
	Servers(ctx context.Context) ([]Server, error)
	// Parts are those that servers have taken whose lease stands, and this server's own until another one has taken them.
	Parts(ctx context.Context) ([]Part, error)
	// TakePart takes a part in a model for this server, if the record is at a generation and fewer servers than its placement's
	// replicas have one. taken is true as well where the server has one within that number.
	TakePart(ctx context.Context, model string, generation int64) (taken bool, err error)
	// LeavePart gives this server's part in a model to others.
	LeavePart(ctx context.Context, model string) error
}
