{{/* The pod of both kinds. */}}
{{- define "ccm.pod" -}}
{{- $securePort := include "ccm.securePort" . -}}
{{- $hostNetwork := include "ccm.hostNetwork" . -}}
{{- $hasCache := kindIs "invalid" (index .Values.args "compiled-cache-dir") -}}
metadata:
  labels:
    {{- merge (include "ccm.selectorLabels" . | fromYaml) (.Values.podLabels | default dict) | toYaml | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "ccm.name" . | quote }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
  {{- range . }}
  {{- if kindIs "string" . }}
  - name: {{ . | quote }}
  {{- else }}
  - {{ toJson . }}
  {{- end }}
  {{- end }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with .Values.terminationGracePeriodSeconds }}
  terminationGracePeriodSeconds: {{ int . }}
  {{- end }}
  {{- if $hostNetwork }}
  hostNetwork: true
  {{- end }}
  dnsPolicy: {{ .Values.dnsPolicy }}
  {{- with .Values.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  tolerations:
  - { key: node.cloudprovider.kubernetes.io/uninitialized, operator: Exists }
  - { key: node-role.kubernetes.io/control-plane, operator: Exists }
  - { key: node-role.kubernetes.io/master, operator: Exists }
  # RKE2, where Rancher provisions it.
  - { key: node-role.kubernetes.io/etcd, operator: Exists }
  - { key: CriticalAddonsOnly, operator: Exists }
  - { key: node.kubernetes.io/not-ready, operator: Exists }
  {{- if and $hostNetwork (eq .Values.kind "Deployment") }}
  # Nodes without routes get them from this pod. To a DaemonSet's pods its controller adds this toleration.
  - { key: node.kubernetes.io/network-unavailable, operator: Exists }
  {{- end }}
  {{- with .Values.additionalTolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .Values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
  - name: ccm
    {{- with .Values.image.digest }}
    image: {{ $.Values.image.repository }}@{{ . }}
    {{- else }}
    image: {{ .Values.image.repository }}:{{ tpl (include "ccm.scalar" (.Values.image.tag | default .Chart.AppVersion)) . }}
    {{- end }}
    {{- with .Values.image.pullPolicy }}
    imagePullPolicy: {{ . }}
    {{- end }}
    args:
    {{- include "ccm.arguments" . | nindent 4 }}
    {{- include "ccm.environment" . | nindent 4 }}
    {{- include "ccm.ports" . | nindent 4 }}
    {{- with $securePort }}
    # The cloud's absence fails neither probe.
    livenessProbe:
      httpGet: {{ include "ccm.probe" (dict "root" $ "path" "/livez" "port" .) }}
      periodSeconds: 10
      timeoutSeconds: 5
      failureThreshold: 3
    readinessProbe:
      httpGet: {{ include "ccm.probe" (dict "root" $ "path" "/readyz" "port" .) }}
      periodSeconds: 10
      timeoutSeconds: 5
    {{- end }}
    {{- with .Values.securityContext }}
    securityContext:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .Values.resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    volumeMounts:
    {{- if .Values.config }}
    - { name: configuration, mountPath: /etc/ccm, readOnly: true }
    {{- end }}
    {{- if $hasCache }}
    - { name: cache, mountPath: /var/cache/ccm }
    {{- end }}
    - { name: tmp, mountPath: /tmp }
    {{- with .Values.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
  {{- if .Values.config }}
  - name: configuration
    configMap: { name: {{ include "ccm.name" . | quote }} }
  {{- end }}
  {{- if $hasCache }}
  - name: cache
    emptyDir: { sizeLimit: 1Gi }
  {{- end }}
  - name: tmp
    emptyDir: { sizeLimit: 64Mi }
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* A variable. Where the chart's default is a valueFrom, a value that is given wins over it. dict root, name, value */}}
{{- define "ccm.variable" -}}
{{- $source := .value -}}
{{- if hasKey $source "value" -}}{{- $source = omit $source "valueFrom" -}}{{- end -}}
{{- merge (dict "name" .name) (tpl (toYaml $source) .root | fromYaml) | toJson -}}
{{- end -}}

{{- define "ccm.environment" -}}
{{- $env := list -}}
{{- range $name, $value := .Values.env -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $env = append $env (include "ccm.variable" (dict "root" $ "name" $name "value" $value) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- if .Values.networking.enabled -}}
{{- $env = append $env (include "ccm.variable" (dict "root" . "name" "HCLOUD_NETWORK" "value" .Values.networking.network) | fromJson) -}}
{{- end -}}
{{- if not .Values.monitoring.enabled -}}
{{- $env = append $env (dict "name" "HCLOUD_METRICS_ENABLED" "value" "false") -}}
{{- end -}}
{{- if .Values.robot.enabled -}}
{{- $env = append $env (dict "name" "ROBOT_ENABLED" "value" "true") -}}
{{- end -}}
{{- with $env -}}
env:
{{ toYaml . }}
{{- end -}}
{{- end -}}

{{/* Two pods of a Deployment on one node would want the same ports of it: a declared port keeps them apart. */}}
{{- define "ccm.ports" -}}
{{- $ports := list -}}
{{- if .Values.monitoring.enabled -}}
{{- $ports = append $ports (dict "name" "metrics" "containerPort" 8233) -}}
{{- end -}}
{{- if and (include "ccm.securePort" .) (include "ccm.hostNetwork" .) (eq .Values.kind "Deployment") -}}
{{- $ports = append $ports (dict "name" "secure" "containerPort" (include "ccm.securePort" . | int)) -}}
{{- end -}}
{{- with $ports -}}
ports:
{{ toYaml . }}
{{- end -}}
{{- end -}}

{{/* The kubelet asks the pod's address, which is the node's: an address of --bind-address is asked in its place. */}}
{{- define "ccm.probe" -}}
{{- $address := include "ccm.bindAddress" .root -}}
{{- $get := dict "path" .path "port" (int .port) "scheme" "HTTPS" -}}
{{- if and $address (include "ccm.hostNetwork" .root) -}}
{{- $_ := set $get "host" $address -}}
{{- end -}}
{{- toJson $get -}}
{{- end -}}
