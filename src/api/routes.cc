// All families of routes, in the order of the document.
#include <span>
#include <utility>

#include "api/route.h"
#include "api/router.h"

namespace noetl::api {

Router::Router(RouterOptions options, Services* services)
    : Router(std::move(options), services,
             std::initializer_list<std::span<const Route>>{
                 SystemRoutes(), AuthRoutes(), CatalogRoutes(), ExecuteRoutes(), ExecutionRoutes(),
                 StreamRoutes(), EventRoutes(), CommandRoutes(), WorkerRoutes(), VariableRoutes(),
                 ResultRoutes(), ReplayRoutes(), SubscriptionRoutes(), CredentialRoutes(),
                 InternalRoutes()}) {}

}  // namespace noetl::api
