package mesh

import (
	"context"

	"herdr-link/mesh/lock"
)

// A Health is what may keep the toolset from working on this machine, for the
// operator: its errors name paths.
type Health struct {
	State  error       // of the folders that the records are in: STATE_INSECURE, STATE_IO; nil too if there are none yet
	Lock   lock.Status // the one of all stores; says nothing if State is not nil
	Verify error       // why nothing can be verified here: VERIFY_UNAVAILABLE
}

// Health looks, in 2 s at most. It reads no record, and makes and changes nothing;
// on Linux it starts bubblewrap, which does nothing then.
func (m *Mesh) Health(ctx context.Context) Health {
	return Health{m.store.Check(), m.store.Status(), m.verifier.Unavailable(ctx)}
}
