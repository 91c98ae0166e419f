{{/* What each controller needs: the rules of kustomize/base/rbac.yaml, to which a test holds them. */}}
{{- define "ccm.rules.cloud-node-controller" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch, patch]
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- define "ccm.rules.cloud-node-lifecycle-controller" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch, patch, delete]
# Whether a cordoned node whose machine is gone was drained to the end.
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- define "ccm.rules.service-lb-controller" -}}
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [services/status]
  verbs: [patch]
# Whether a Service goes because its namespace does.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- define "ccm.rules.node-route-controller" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- define "ccm.rules.node-ipam-controller" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* The account of a controller with --use-service-account-credentials. */}}
{{- define "ccm.account" -}}
{{- if eq . "service-lb-controller" -}}service-controller
{{- else if eq . "node-route-controller" -}}route-controller
{{- else -}}node-controller
{{- end -}}
{{- end -}}

{{/* A ClusterRole. dict root, name, rules */}}
{{- define "ccm.clusterRole" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "ccm.name" .root }}:{{ .name }}
  labels:
    {{- include "ccm.labels" .root | nindent 4 }}
rules:
{{ .rules }}
{{- end -}}

{{/* The binding of the ClusterRole of this name, or of another role, to the account of the pod or another subject. dict root,
name, role, subject */}}
{{- define "ccm.clusterRoleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ include "ccm.name" .root }}:{{ .name }}
  labels:
    {{- include "ccm.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .role | default (printf "%s:%s" (include "ccm.name" .root) .name) }}
subjects:
{{ .subject | default (include "ccm.subject" .root) }}
{{- end -}}

{{/* The same in one namespace, role and binding together. dict root, name, namespace, rules */}}
{{- define "ccm.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "ccm.name" .root }}:{{ .name }}
  namespace: {{ .namespace | quote }}
  labels:
    {{- include "ccm.labels" .root | nindent 4 }}
rules:
{{ .rules }}
---
{{ include "ccm.roleBinding" . }}
{{- end -}}

{{- define "ccm.roleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ include "ccm.name" .root }}:{{ .name }}
  namespace: {{ .namespace | quote }}
  labels:
    {{- include "ccm.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .role | default (printf "%s:%s" (include "ccm.name" .root) .name) }}
subjects:
{{ include "ccm.subject" .root }}
{{- end -}}
