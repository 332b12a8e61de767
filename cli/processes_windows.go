package cli

import "context"

// lineage is not known here.
func lineage(context.Context) []process { return nil }

// servers are not known here: no process shows its variables to others.
func servers(context.Context, map[string]string) (found []process, known bool) { return nil, false }
