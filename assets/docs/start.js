// Shows the API document of the service that this page came from, and asks nobody else.
window.ui = SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#page",
  validatorUrl: null,
  deepLinking: true,
  filter: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  persistAuthorization: false,
});
