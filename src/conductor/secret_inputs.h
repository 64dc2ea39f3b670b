// Secret inputs of a run: workload keys that the playbook marks with `# ui:secret`.
//
// The log is for ever and many may read it, so the value goes where secrets are kept, and the log
// says {"_secret": alias} in its place. Templates that read such a key are rendered by the worker,
// which asks for the value when it needs it.
#pragma once

#include "base/result.h"
#include "conductor/conductor.h"
#include "playbook/model.h"
#include "store/store.h"

namespace noetl::conductor {

// Replaces the secret inputs of the payload. "invalid": the payload names a secret of another run
// that it may not have. Without `secrets` nothing is kept secret.
Status HideSecretInputs(const playbook::Playbook& playbook, const store::Store& store,
                        SecretSource* secrets, StartCall* call);

}  // namespace noetl::conductor
