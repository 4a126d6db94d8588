package deployment

import "context"

// Store keeps what is wanted, and what servers observe; internal/store has it. All methods may be called at the same time,
// also from several processes.
type Store interface {
	// DeploymentRevision is that of the last change of any record; 0: there never was one.
	DeploymentRevision(ctx context.Context) (int64, error)
	// Deployments are all records, in the order of their models.
	Deployments(ctx context.Context) ([]Record, error)
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
}
